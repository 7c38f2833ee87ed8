// The memory of tensors in lists: which share it, how elements follow each other in it, and that it was written.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace polycast::multi_tensor {

// The real dtypes that the operators compute with.
constexpr bool is_real(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

// Below this many tensors a second thread costs more than it saves.
constexpr int64_t tensor_grain_size = 512;

// Finds tensors that may share memory: a tensor that is there twice, or two of one storage, of which they span
// intervals that cross. Two columns of one matrix do so, though they have no element in common.
class Overlaps {
 public:
  explicit Overlaps(size_t tensors);

  void add(const at::Tensor& tensor);
  bool any();

 private:
  // Of bytes, and the memory that it is of.
  struct Interval {
    const void* memory;
    int64_t begin;
    int64_t end;
  };

  static Interval interval_of(const at::Tensor& tensor);

  std::vector<const void*> seen_;  // a hash table of tensors, at most half full
  bool is_repeated_ = false;
  std::vector<Interval> intervals_;
};

bool may_overlap(at::TensorList tensors);

// Raises the versions of the tensors. An operator in C++ that writes to a list does not do so by itself, and a backward
// through a tensor saved before the write would use the new values unnoticed. Call it after the write: what another
// thread computes from the values meanwhile then belongs to the old version.
void raise_versions(at::TensorList tensors);

// Whether the elements of two tensors of the same sizes follow each other in memory in the same order, without gaps.
bool same_order(const at::Tensor& left, const at::Tensor& right);

}  // namespace polycast::multi_tensor
