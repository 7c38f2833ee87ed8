// The memory of tensors in lists: sharing, element order, and versions.
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

// Finds tensors that may share memory: a tensor that appears twice, or two tensors that span overlapping intervals of
// one storage. Two columns of a matrix count as well, although they have no element in common.
class Overlaps {
 public:
  explicit Overlaps(size_t tensors);

  void add(const at::Tensor& tensor);
  bool any();

 private:
  // An interval of bytes, and its memory.
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

// Raises the versions of the tensors. PyTorch does not do so for C++ operators that write to a list, and a backward
// through a tensor that was saved before the write would silently use the new values. Call it after the write, so that
// values that another thread computes during the write belong to the old version.
void raise_versions(at::TensorList tensors);

// Returns whether two tensors of the same sizes have their elements in the same order in memory, without gaps.
bool same_order(const at::Tensor& left, const at::Tensor& right);

}  // namespace polycast::multi_tensor
