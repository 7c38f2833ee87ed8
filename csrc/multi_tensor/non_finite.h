// The check of blocks for non-finite elements, and a flag for each tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

namespace polycast::scale {

// Returns whether any element is infinite or NaN: all bits of its exponent are one. `exponent` is their mask.
template <class Bits, class Math>
[[gnu::always_inline]] inline bool any_exponent(const Math* values, int64_t count, Bits exponent) {
  Bits found = 0;
  for (int64_t index = 0; index < count; ++index) {
    Bits bits;
    std::memcpy(&bits, values + index, sizeof(bits));
    found |= static_cast<Bits>((bits & exponent) == exponent);
  }
  return found != 0;
}

// One flag for each tensor of a list. Threads share the flags.
class NonFiniteFlags {
 public:
  explicit NonFiniteFlags(size_t tensors) : found_(tensors) {}

  // Returns whether the block has a non-finite element, and if so, sets the flag of the tensor at an index.
  [[gnu::always_inline]] bool check(const float* values, int64_t count, size_t index) {
    return any_exponent(values, count, uint32_t{0x7f800000}) && add(index);
  }

  [[gnu::always_inline]] bool check(const double* values, int64_t count, size_t index) {
    return any_exponent(values, count, uint64_t{0x7ff0000000000000}) && add(index);
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
