#include "multi_tensor/lists.h"

#include <ATen/Parallel.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace polycast::multi_tensor {

namespace {

using Interval = std::pair<uintptr_t, uintptr_t>;

Interval interval_of(const at::Tensor& tensor) {
  int64_t elements = 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    elements += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  return {begin, begin + elements * tensor.itemsize()};
}

}  // namespace

at::ScalarType real_type(const at::Tensor& tensor) {
  return tensor.is_complex() ? c10::toRealValueType(tensor.scalar_type()) : tensor.scalar_type();
}

bool may_overlap(at::TensorList tensors) {
  std::vector<Interval> intervals;
  for (const at::Tensor& tensor : tensors) {
    // Fake tensors have no memory, and most others are the only ones on theirs.
    const bool has_memory = !tensor.is_meta() && !tensor.key_set().has(c10::DispatchKey::Python);
    if (has_memory && tensor.storage().use_count() > 1 && tensor.numel() > 0) {
      intervals.push_back(interval_of(tensor));
    }
  }
  std::sort(intervals.begin(), intervals.end());
  const auto crosses = [](const Interval& left, const Interval& right) { return right.first < left.second; };
  return std::adjacent_find(intervals.begin(), intervals.end(), crosses) != intervals.end();
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
