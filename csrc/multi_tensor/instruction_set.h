// Compiles a function body for several instruction sets of the CPU, and runs the body for the set that PyTorch uses.
//
// Every function that the body calls must be inlined. Otherwise the function is compiled for the base instruction set.
#pragma once

#include <ATen/Version.h>

#include <cstdint>
#include <string>

namespace polycast::multi_tensor {

enum class InstructionSet { base, avx2, avx512 };

// Returns the instruction set that PyTorch uses: the best set of the CPU, or the set in `ATEN_CPU_CAPABILITY`.
inline InstructionSet instruction_set() {
  static const InstructionSet chosen = [] {
    const std::string name = at::get_cpu_capability();
    return name.rfind("AVX512", 0) == 0 ? InstructionSet::avx512
           : name == "AVX2"             ? InstructionSet::avx2
                                        : InstructionSet::base;
  }();
  return chosen;
}

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
void run_vectorized(const Body& body, int64_t begin, int64_t end) {
#if defined(__x86_64__)
  if (instruction_set() == InstructionSet::avx512) {
    return run_avx512(body, begin, end);
  }
  if (instruction_set() == InstructionSet::avx2) {
    return run_avx2(body, begin, end);
  }
#endif
  body(begin, end);
}

}  // namespace polycast::multi_tensor
