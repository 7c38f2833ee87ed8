#include "multi_tensor/instruction_set.h"

#include <ATen/Version.h>

#include <string>

namespace polycast::multi_tensor {

InstructionSet instruction_set() {
  static const InstructionSet chosen = [] {
    const std::string name = at::get_cpu_capability();
    return name.rfind("AVX512", 0) == 0 ? InstructionSet::avx512
           : name == "AVX2"             ? InstructionSet::avx2
                                        : InstructionSet::base;
  }();
  return chosen;
}

}  // namespace polycast::multi_tensor
