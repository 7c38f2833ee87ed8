// The memory of tensors in lists: prefetching, sharing, element order, and versions.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <vector>

namespace polycast::multi_tensor {

// Returns whether the operators support a dtype.
constexpr bool is_real(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

// Below this many tensors a second thread costs more than it saves.
constexpr int64_t tensor_grain_size = 512;

inline void prefetch(const void* address, size_t bytes) {
  constexpr size_t line = 64;
  for (size_t offset = 0; offset < bytes; offset += line) {
    __builtin_prefetch(static_cast<const char*>(address) + offset);
  }
}

// Prefetches the objects of the tensors that a loop processes next. The objects of thousands of small tensors are
// spread over memory, and a step would wait for each of them. A storage is prefetched later than its tensor, because
// the tensor has the storage's address.
inline void prefetch_ahead(at::TensorList tensors, size_t index) {
  constexpr size_t distance = 8;
  if (index + 2 * distance < tensors.size()) {
    prefetch(tensors[index + 2 * distance].unsafeGetTensorImpl(), sizeof(c10::TensorImpl));
  }
  if (index + distance < tensors.size() && tensors[index + distance].has_storage()) {
    prefetch(
        tensors[index + distance].unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(),
        sizeof(c10::StorageImpl));
  }
}

// A search for tensors that may share memory: a tensor that appears twice, or two tensors that span overlapping
// intervals of one storage. Two columns of a matrix count as well, although they have no element in common.
class Overlaps {
 public:
  explicit Overlaps(size_t tensors);

  void add(const at::Tensor& tensor);
  bool any();

 private:
  // An interval of bytes in `memory`.
  struct Interval {
    const void* memory;
    int64_t begin;
    int64_t end;
  };

  static Interval interval_of(const at::Tensor& tensor);

  std::vector<const void*> seen_;  // A hash table of tensors, at most half full.
  bool is_repeated_ = false;
  std::vector<Interval> intervals_;
};

bool may_overlap(at::TensorList tensors);

// Increments the versions of the tensors. PyTorch does not do so for C++ operators that write to a list. Without a new
// version, a backward through a tensor that was saved before the write would silently use the new values. Call this
// function after the write, so that values that another thread computes during the write belong to the old version.
void raise_versions(at::TensorList tensors);

// Returns whether two tensors of the same sizes have their elements in the same order in memory, without gaps.
bool same_order(const at::Tensor& left, const at::Tensor& right);

}  // namespace polycast::multi_tensor
