#include "multi_tensor/tensor_memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>

namespace polycast::multi_tensor {

namespace {

// Fake tensors have no memory.
bool is_in_memory(const at::Tensor& tensor) {
  return !tensor.is_meta() && !tensor.key_set().has(c10::DispatchKey::Python) && tensor.has_storage() &&
         tensor.numel() > 0;
}

}  // namespace

Overlaps::Overlaps(size_t tensors) : seen_(2 * tensors + 1) {}

void Overlaps::add(const at::Tensor& tensor) {
  const void* const address = tensor.unsafeGetTensorImpl();
  size_t place = reinterpret_cast<uintptr_t>(address) / alignof(std::max_align_t) % seen_.size();
  while (seen_[place] != nullptr && seen_[place] != address) {
    place = (place + 1) % seen_.size();
  }
  is_repeated_ = is_repeated_ || seen_[place] == address;
  seen_[place] = address;
  // Most tensors do not share their storage, and need no interval.
  if (is_in_memory(tensor) && tensor.storage().use_count() > 1) {
    intervals_.push_back(interval_of(tensor));
  }
}

bool Overlaps::any() {
  const auto is_before = [](const Interval& left, const Interval& right) {
    return std::tie(left.memory, left.begin) < std::tie(right.memory, right.begin);
  };
  const auto cross = [](const Interval& left, const Interval& right) {
    return left.memory == right.memory && right.begin < left.end;
  };
  std::sort(intervals_.begin(), intervals_.end(), is_before);
  return is_repeated_ || std::adjacent_find(intervals_.begin(), intervals_.end(), cross) != intervals_.end();
}

Overlaps::Interval Overlaps::interval_of(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  // The strides of a tensor that is wrapped for functionalization do not describe its memory.
  if (tensor.key_set().has(c10::DispatchKey::Functionalize)) {
    return {storage.unsafeGetStorageImpl(), 0, std::numeric_limits<int64_t>::max()};
  }
  const size_t size = tensor.itemsize(), offset = tensor.storage_offset();
  const size_t end = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), size, offset);
  return {storage.data(), static_cast<int64_t>(offset * size), static_cast<int64_t>(end)};
}

bool may_overlap(at::TensorList tensors) {
  Overlaps overlaps(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    overlaps.add(tensor);
  }
  return overlaps.any();
}

void raise_versions(at::TensorList tensors) {
  at::parallel_for(0, tensors.size(), tensor_grain_size, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      if (!tensors[index].is_inference()) {
        tensors[index].unsafeGetTensorImpl()->bump_version();
      }
    }
  });
}

bool same_order(const at::Tensor& left, const at::Tensor& right) {
  if (left.is_contiguous() && right.is_contiguous()) {
    return true;
  }
  if (!left.is_non_overlapping_and_dense() || !right.is_non_overlapping_and_dense()) {
    return false;
  }
  for (int64_t dim = 0; dim < left.dim(); ++dim) {
    if (left.size(dim) != 1 && left.stride(dim) != right.stride(dim)) {
      return false;
    }
  }
  return true;
}

}  // namespace polycast::multi_tensor
