// The check of blocks for non-finite elements, and a flag for each tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/bit_cast.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace polycast::scale {

// Returns whether any element is infinite or NaN: all bits of its exponent are one, as in an infinity.
template <class Math>
[[gnu::always_inline]] inline bool has_non_finite(const Math* values, int64_t count) {
  using Bits = std::conditional_t<std::is_same_v<Math, float>, uint32_t, uint64_t>;
  const Bits exponent = c10::bit_cast<Bits>(std::numeric_limits<Math>::infinity());
  Bits found = 0;
  for (int64_t index = 0; index < count; ++index) {
    found |= static_cast<Bits>((c10::bit_cast<Bits>(values[index]) & exponent) == exponent);
  }
  return found != 0;
}

// One flag for each tensor of a list. Threads share the flags.
class NonFiniteFlags {
 public:
  explicit NonFiniteFlags(size_t tensors) : found_(tensors) {}

  // Returns whether the block has a non-finite element, and if so, sets the flag of the tensor at an index.
  template <class Math>
  [[gnu::always_inline]] bool check(const Math* values, int64_t count, size_t index) {
    return has_non_finite(values, count) && add(index);
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
  bool add(size_t index) {
    found_[index].store(true, std::memory_order_relaxed);
    return true;
  }

  std::vector<std::atomic<bool>> found_;
};

}  // namespace polycast::scale
