#include "kernels/lists.h"

#include <ATen/Parallel.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

namespace polycast::multi_tensor {

namespace {

// Of bytes, and the memory that it is of.
struct Interval {
  const void* memory;
  int64_t begin;
  int64_t end;

  bool operator<(const Interval& other) const {
    return std::tie(memory, begin) < std::tie(other.memory, other.begin);
  }
};

// Fake tensors have no memory.
bool is_in_memory(const at::Tensor& tensor) {
  return !tensor.is_meta() && !tensor.key_set().has(c10::DispatchKey::Python) && tensor.numel() > 0;
}

Interval interval_of(const at::Tensor& tensor) {
  int64_t elements = 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    elements += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  const auto size = static_cast<int64_t>(tensor.itemsize());
  const int64_t begin = tensor.storage_offset() * size;
  return {tensor.storage().data(), begin, begin + elements * size};
}

bool any_cross(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  const auto cross = [](const Interval& left, const Interval& right) {
    return left.memory == right.memory && right.begin < left.end;
  };
  return std::adjacent_find(intervals.begin(), intervals.end(), cross) != intervals.end();
}

}  // namespace

at::ScalarType real_type(const at::Tensor& tensor) {
  return tensor.is_complex() ? c10::toRealValueType(tensor.scalar_type()) : tensor.scalar_type();
}

bool may_overlap(at::TensorList tensors) {
  std::vector<Interval> intervals;
  for (const at::Tensor& tensor : tensors) {
    // Most tensors are the only ones on their memory.
    if (is_in_memory(tensor) && tensor.storage().use_count() > 1) {
      intervals.push_back(interval_of(tensor));
    }
  }
  return any_cross(std::move(intervals));
}

bool any_overlap(c10::ArrayRef<List> lists) {
  std::vector<Interval> intervals;
  for (const List& list : lists) {
    for (const at::Tensor& tensor : list.tensors) {
      if (is_in_memory(tensor)) {
        intervals.push_back(interval_of(tensor));
      }
    }
  }
  return any_cross(std::move(intervals));
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

std::vector<at::Tensor> as_real(at::TensorList tensors) {
  std::vector<at::Tensor> results;
  results.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    results.push_back(tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor);
  }
  return results;
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
