// What the operators over lists of tensors ask of their arguments before they write anything.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace polycast::multi_tensor {

// The real types that the operators compute with.
constexpr bool is_real(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

// Below this many tensors a second thread costs more than it saves.
constexpr int64_t tensor_grain_size = 512;

struct List {
  const char* name;
  at::TensorList tensors;
  bool written;
};

// The lists are as long as the first, on its device, floating-point, and each tensor has the sizes of the first list's
// at its place. An empty list other than the first is one that the call does without.
void check_lists(const char* op, c10::ArrayRef<List> lists);

// One real element for each tensor of the first list, on its device.
void check_counters(const char* op, const List& first, const List& counters);

// At most one floating-point element on the device; float32 for found_inf.
void check_scalar(const char* op, const char* name, const std::optional<at::Tensor>& tensor, c10::Device device);
void check_found_inf(const char* op, const std::optional<at::Tensor>& found_inf, c10::Device device);

// No two places of the lists share memory if one of them is written. Says nothing of tensors without memory of their
// own, such as fake ones.
void check_disjoint(const char* op, c10::ArrayRef<List> lists);

// The same, where the caller has a fingerprint of the places at hand.
void check_disjoint(const char* op, c10::ArrayRef<List> lists, size_t fingerprint);

// A hash of where the tensors are.
size_t fingerprint(at::TensorList tensors);

// An operator in C++ that writes to a list raises no version by itself, and a backward through a tensor saved before
// the write would use the new values unnoticed. It goes after the write: what another thread makes of the values
// meanwhile then belongs to the old version.
void raise_versions(at::TensorList tensors);

// Complex tensors as real ones with a last dimension of two; the others as they are.
std::vector<at::Tensor> as_real(at::TensorList tensors);

// Whether the elements of two tensors of the same sizes follow each other in memory in the same order, without gaps.
bool same_order(const at::Tensor& left, const at::Tensor& right);

}  // namespace polycast::multi_tensor
