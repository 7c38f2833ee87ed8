// Compiles one function body for several instruction sets of the CPU. The one that PyTorch has selected runs.
//
// Every function that the body calls must be inlined, otherwise it is compiled for the oldest instruction set.
#pragma once

#include <cstdint>

namespace polycast::multi_tensor {

enum class InstructionSet { base, avx2, avx512 };

// Returns the instruction set that PyTorch uses: the best one of the CPU, or the one in ATEN_CPU_CAPABILITY.
InstructionSet instruction_set();

#if defined(__x86_64__)
template <class Body>
[[gnu::target("avx2,fma,f16c")]] void run_avx2(const Body& body, int64_t begin, int64_t end) {
  body(begin, end);
}

template <class Body>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]] void run_avx512(
    const Body& body, int64_t begin, int64_t end) {
  body(begin, end);
}
#endif

template <class Body>
void run_base(const Body& body, int64_t begin, int64_t end) {
  body(begin, end);
}

template <class Body>
void run_vectorized(const Body& body, int64_t begin, int64_t end) {
#if defined(__x86_64__)
  switch (instruction_set()) {
    case InstructionSet::avx512:
      return run_avx512(body, begin, end);
    case InstructionSet::avx2:
      return run_avx2(body, begin, end);
    case InstructionSet::base:
      break;
  }
#endif
  run_base(body, begin, end);
}

}  // namespace polycast::multi_tensor
