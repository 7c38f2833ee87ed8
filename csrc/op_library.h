// The operators of polycast. The dispatcher has none of them until the optimizers or the scaler are imported.
#pragma once

#include <torch/library.h>

namespace polycast {

// Registers the operators and their kernels for the CPU, once. They stay, because compiled code may hold them.
void register_operators();

// Each registers its kernels for the CPU.
namespace optim {
void register_adam(torch::Library& library);
void register_sgd(torch::Library& library);
}  // namespace optim

namespace scale {
void register_non_finite(torch::Library& library);
void register_norm(torch::Library& library);
void register_update(torch::Library& library);
}  // namespace scale

}  // namespace polycast
