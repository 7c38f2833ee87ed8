// Converts blocks of float16 to float32 and back, with the instructions that processors have for it. The compiler uses
// them only in code that is compiled for one processor. Otherwise c10::Half computes with integers, at half the speed.
//
// A NaN keeps its payload, as in PyTorch's kernels.
#pragma once

#include <c10/util/Half.h>

#include <cstdint>

#include "multi_tensor/instruction_set.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace polycast::multi_tensor {

#if defined(__x86_64__)
[[gnu::target("avx2,f16c")]] inline int64_t widen_f16c(const c10::Half* source, int64_t count, float* target) {
  int64_t index = 0;
  for (; index + 8 <= count; index += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + index));
    _mm256_storeu_ps(target + index, _mm256_cvtph_ps(half));
  }
  return index;
}

[[gnu::target("avx2,f16c")]] inline int64_t narrow_f16c(const float* source, int64_t count, c10::Half* target) {
  int64_t index = 0;
  for (; index + 8 <= count; index += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(source + index), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + index), half);
  }
  return index;
}
#endif

inline void widen(const c10::Half* source, int64_t count, float* target) {
  int64_t index = 0;
#if defined(__x86_64__)
  if (instruction_set() != InstructionSet::base) {
    index = widen_f16c(source, count, target);
  }
#endif
  for (; index < count; ++index) {
    target[index] = static_cast<float>(source[index]);
  }
}

inline void narrow(const float* source, int64_t count, c10::Half* target) {
  int64_t index = 0;
#if defined(__x86_64__)
  if (instruction_set() != InstructionSet::base) {
    index = narrow_f16c(source, count, target);
  }
#endif
  for (; index < count; ++index) {
    target[index] = static_cast<c10::Half>(source[index]);
  }
}

}  // namespace polycast::multi_tensor
