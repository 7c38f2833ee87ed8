// Lists of tensors as the operators take them, and what kernels in C++ do with them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace polycast::multi_tensor {

// The real dtypes that the operators compute with.
constexpr bool is_real(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

// The dtype of the elements. For a complex dtype it is that of their real parts.
at::ScalarType real_type(const at::Tensor& tensor);

// Below this many tensors a second thread costs more than it saves.
constexpr int64_t tensor_grain_size = 512;

struct List {
  const char* name;
  at::TensorList tensors;
  bool written;
  bool optional = false;  // whether it may be empty: a call does without it
};

// Whether tensors share a storage, and the intervals of it that they span cross. Two columns of one matrix do so,
// though they have no element in common.
bool may_overlap(at::TensorList tensors);

// The same for all tensors of all lists. A tensor that is there twice overlaps itself.
bool any_overlap(c10::ArrayRef<List> lists);

// Raises the versions of the tensors. An operator in C++ that writes to a list does not do so by itself, and a backward
// through a tensor saved before the write would use the new values unnoticed. Call it after the write: what another
// thread computes from the values meanwhile then belongs to the old version.
void raise_versions(at::TensorList tensors);

// Complex tensors as real ones with a last dimension of two; the others as they are.
std::vector<at::Tensor> as_real(at::TensorList tensors);

// Whether the elements of two tensors of the same sizes follow each other in memory in the same order, without gaps.
bool same_order(const at::Tensor& left, const at::Tensor& right);

}  // namespace polycast::multi_tensor
