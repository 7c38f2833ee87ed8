// The kernels that torch has for whole lists of tensors, on the devices where they are known to do all that is asked.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace polycast::multi_tensor {

// Names all types of devices whose kernels take found_inf and grad_scale as torch documents them, and compute in
// float64. That there are kernels says little: on MPS those of 2.9 pass both over.
void trust_torch_kernels(const std::vector<std::string>& device_types);

// Whether torch's kernels serve where such a tensor lies.
bool has_torch_kernels(const at::Tensor& tensor);

}  // namespace polycast::multi_tensor
