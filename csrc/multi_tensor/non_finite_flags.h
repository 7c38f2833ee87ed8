// Flags for the tensors of a list that have a non-finite element. Threads share them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace polycast::scale {

class NonFiniteFlags {
 public:
  explicit NonFiniteFlags(size_t tensors) : found_(tensors) {}

  void add(size_t index) {
    found_[index].store(true, std::memory_order_relaxed);
  }

  bool any() const {
    return std::any_of(found_.begin(), found_.end(), [](const std::atomic<bool>& found) { return found.load(); });
  }

  at::Tensor found_inf() const {
    return at::scalar_tensor(any() ? 1.0 : 0.0, at::kFloat);
  }

  at::Tensor non_finite() const {
    at::Tensor result = at::empty({static_cast<int64_t>(found_.size())}, at::kFloat);
    std::copy(found_.begin(), found_.end(), result.mutable_data_ptr<float>());
    return result;
  }

 private:
  std::vector<std::atomic<bool>> found_;
};

}  // namespace polycast::scale
