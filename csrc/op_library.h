// The operators of polycast. They are registered when the optimizers or the scaler are imported.
#pragma once

#include <torch/library.h>

namespace polycast {

// Registers the operators and their kernels for the CPU, once. They remain, because compiled code may call them.
void register_operators();

// Each registers its kernels for the CPU.
namespace optim {
void register_adam(torch::Library& library);
void register_sgd(torch::Library& library);
}  // namespace optim

namespace scale {
void register_norm(torch::Library& library);
void register_scale(torch::Library& library);
}  // namespace scale

}  // namespace polycast
