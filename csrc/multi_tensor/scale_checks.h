// Checks of the arguments of operators over gradients, on any device.
#pragma once

#include <ATen/core/Tensor.h>

namespace polycast::scale {

// That there is a tensor.
void check_not_empty(const char* op, at::TensorList tensors);
// The dtypes and devices of the tensors.
void check_tensors(const char* op, at::TensorList tensors);
void check_norm_type(double norm_type);
void check_unscale(at::TensorList grads, const at::Tensor& found_inf, const at::Tensor& inv_scale);
void check_update(const at::Tensor& scale, const at::Tensor& growth_tracker, const at::Tensor& found_inf);

}  // namespace polycast::scale
