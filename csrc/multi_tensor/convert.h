// Conversions of blocks. Between float16 and float32 they use instructions of the CPU, if PyTorch uses AVX2 or AVX-512.
// In code that must run on any CPU, `c10::Half` converts with integer arithmetic instead, at half the speed.
#pragma once

#include <c10/util/Half.h>

#include <cstdint>
#include <type_traits>

#include "multi_tensor/instruction_set.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace polycast::multi_tensor {

#if defined(__x86_64__)
// GCC warns that the instructions without a mask use an uninitialized register.
constexpr __mmask16 all_16 = 0xFFFF;

[[gnu::target("avx512f")]] inline int64_t convert_avx512(const c10::Half* source, int64_t count, float* target) {
  int64_t index = 0;
  for (; index + 16 <= count; index += 16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + index));
    _mm512_storeu_ps(target + index, _mm512_maskz_cvtph_ps(all_16, half));
  }
  return index;
}

[[gnu::target("avx512f")]] inline int64_t convert_avx512(const float* source, int64_t count, c10::Half* target) {
  int64_t index = 0;
  for (; index + 16 <= count; index += 16) {
    const __m256i half = _mm512_maskz_cvtps_ph(all_16, _mm512_loadu_ps(source + index), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + index), half);
  }
  return index;
}

[[gnu::target("avx2,f16c")]] inline int64_t convert_avx2(const c10::Half* source, int64_t count, float* target) {
  int64_t index = 0;
  for (; index + 8 <= count; index += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + index));
    _mm256_storeu_ps(target + index, _mm256_cvtph_ps(half));
  }
  return index;
}

[[gnu::target("avx2,f16c")]] inline int64_t convert_avx2(const float* source, int64_t count, c10::Half* target) {
  int64_t index = 0;
  for (; index + 8 <= count; index += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(source + index), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + index), half);
  }
  return index;
}
#endif

template <class Source, class Target>
[[gnu::always_inline]] inline void convert(const Source* source, int64_t count, Target* target) {
  int64_t index = 0;
#if defined(__x86_64__)
  if constexpr (
      (std::is_same_v<Source, c10::Half> && std::is_same_v<Target, float>) ||
      (std::is_same_v<Source, float> && std::is_same_v<Target, c10::Half>)) {
    const InstructionSet chosen = instruction_set();
    index = chosen == InstructionSet::avx512 ? convert_avx512(source, count, target)
            : chosen == InstructionSet::avx2 ? convert_avx2(source, count, target)
                                             : 0;
  }
#endif
  for (; index < count; ++index) {
    target[index] = static_cast<Target>(source[index]);
  }
}

}  // namespace polycast::multi_tensor
