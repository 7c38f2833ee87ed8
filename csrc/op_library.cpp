// All operators of polycast. The optimizers and the scaler in Python call the kernels only through these operators.
//
// The tensors of all lists are real, strided and on one device, and no two parameters share memory. An operator checks
// all of its arguments before it writes. It increments the version of every tensor that it may write. The exception is
// a skipped step on the CPU, where the kernel can read `found_inf`. On the CPU an operator is one fused pass over all
// tensors, on XLA one computation. For other devices, Python registers kernels that call PyTorch's. With `grad_scale`
// or `clip_coef`, PyTorch's fused steps may write the divided gradients as well.
//
// - `found_inf`: one float32 element. If it is not zero, a step changes nothing.
// - `grad_scale`: one element. A step divides the gradients by it, and `norm` divides the norm by it.
// - `clip_coef`: one element. A step multiplies the gradients by it.
// - `lr_tensor`: one element, on the CPU or on the device of the parameters. It replaces `lr`.
#include <torch/library.h>

TORCH_LIBRARY(polycast, library) {
  library.def(
      "adam_step_(Tensor(a!)[] params, Tensor(f!)[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, "
      "Tensor(d!)[] max_exp_avg_sqs, Tensor(e!)[] steps, *, float lr, float beta1, float beta2, float weight_decay, "
      "float eps, bool decoupled_weight_decay, bool maximize, Tensor? lr_tensor=None, Tensor? found_inf=None, "
      "Tensor? grad_scale=None, Tensor? clip_coef=None) -> ()");
  // A momentum buffer starts at zero.
  library.def(
      "sgd_step_(Tensor(a!)[] params, Tensor(c!)[] grads, Tensor(b!)[] momentum_buffers, *, float lr, "
      "float weight_decay, float momentum, bool nesterov, bool maximize, Tensor? lr_tensor=None, "
      "Tensor? found_inf=None, Tensor? grad_scale=None, Tensor? clip_coef=None) -> ()");

  // `found_inf` is 1 if any tensor has a non-finite element, otherwise 0. `non_finite` has such a flag for each tensor.
  library.def("find_non_finite(Tensor[] tensors) -> (Tensor found_inf, Tensor non_finite)");
  // Returns the norm of all elements together, in float32 (or float64, if any tensor is), and the results of
  // `find_non_finite`. The order of the norm is 2, or infinity. A norm of float64 sums is divided by `grad_scale`
  // before it is rounded to float32, which the norm of scaled gradients may overflow.
  library.def(
      "norm(Tensor[] tensors, bool infinity, Tensor? grad_scale=None) -> "
      "(Tensor norm, Tensor found_inf, Tensor non_finite)");
  // Multiplies the gradients by `inv_scale`. Sets `found_inf` to 1 if an element was non-finite before the
  // multiplication.
  library.def("unscale_(Tensor(a!)[] grads, Tensor(b!) found_inf, Tensor inv_scale) -> Tensor non_finite");
  // `growth_tracker` counts the steps since the last growth or backoff.
  library.def(
      "update_scale_(Tensor(a!) scale, Tensor(b!) growth_tracker, Tensor found_inf, float growth_factor, "
      "float backoff_factor, int growth_interval, float min_scale, float max_scale) -> ()");
}

TORCH_LIBRARY_IMPL(polycast, Autograd, library) {
  // The operators have no derivative. Without these fallthroughs, autograd's own fallback would copy each list.
  for (const char* name : {"adam_step_", "sgd_step_", "find_non_finite", "norm", "unscale_", "update_scale_"}) {
    library.impl(name, torch::CppFunction::makeFallthrough());
  }
}
