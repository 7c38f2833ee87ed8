// Finds NaNs and infinities by their bits: all bits of their exponent are one.
#pragma once

#include <cstdint>
#include <cstring>

namespace polycast::scale {

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

[[gnu::always_inline]] inline bool any_non_finite(const float* values, int64_t count) {
  return any_exponent(values, count, uint32_t{0x7f800000});
}

[[gnu::always_inline]] inline bool any_non_finite(const double* values, int64_t count) {
  return any_exponent(values, count, uint64_t{0x7ff0000000000000});
}

}  // namespace polycast::scale
