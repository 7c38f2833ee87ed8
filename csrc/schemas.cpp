// Every operator of polycast on one page.
//
// An operator over lists takes tensors of one device. It checks all of its arguments before it writes anything, and
// raises the version of every tensor that it may write, also where it skips, unless the CPU's kernel knows that it has
// written nothing. Its kernels: one fused pass on the CPU,
// one computation on XLA, and on other devices torch's own kernels over lists, or a composition of ATen ops; these
// also tell what an operator does to meta and fake tensors. A step by torch's kernels that is told of grad_scale or
// clip_coef writes the gradients that it has made of them.
//
// - found_inf: one float32 element. Where it is not zero a step writes nothing.
// - grad_scale: what the gradients were multiplied by; a step divides by it.
// - clip_coef: a factor of the gradients.
// - lr: one element, on the host or on the device of the parameters.
#include <torch/library.h>

TORCH_LIBRARY(polycast, library) {
  library.def(
      "adam_step_(Tensor(a!)[] params, Tensor(f!)[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, "
      "Tensor(d!)[] max_exp_avg_sqs, Tensor(e!)[] steps, *, Tensor lr, float beta1, float beta2, float weight_decay, "
      "float eps, bool decoupled_weight_decay, bool maximize, Tensor? found_inf=None, Tensor? grad_scale=None, "
      "Tensor? clip_coef=None) -> ()");
  // momentum_started: empty, or for each parameter one float32 element, 0 until the step that makes its momentum buffer
  // the gradient itself, which dampening leaves alone.
  library.def(
      "sgd_step_(Tensor(a!)[] params, Tensor(d!)[] grads, Tensor(b!)[] momentum_buffers, Tensor(c!)[] "
      "momentum_started, *, "
      "Tensor lr, float weight_decay, float momentum, float dampening, bool nesterov, bool maximize, "
      "Tensor? found_inf=None, Tensor? grad_scale=None, Tensor? clip_coef=None) -> ()");

  // found_inf is 1 where any tensor holds a NaN or an infinity, else 0; non_finite says it of each.
  library.def("find_non_finite(Tensor[] tensors) -> (Tensor found_inf, Tensor non_finite)");
  // The norm of all elements together, float32 (float64 where a tensor is), beside what find_non_finite gives.
  library.def("norm(Tensor[] tensors, float norm_type) -> (Tensor norm, Tensor found_inf, Tensor non_finite)");
  // Multiplies by inv_scale. Sets found_inf to 1 where an element was not finite before, and otherwise leaves it.
  library.def("unscale_(Tensor(a!)[] grads, Tensor(b!) found_inf, Tensor inv_scale) -> Tensor non_finite");
  // growth_tracker counts the steps since the scale last changed.
  library.def(
      "update_scale_(Tensor(a!) scale, Tensor(b!) growth_tracker, Tensor found_inf, float growth_factor, "
      "float backoff_factor, int growth_interval, float min_scale, float max_scale) -> ()");
}

// None of them has a derivative. Without this, autograd's own fallback would copy each list on the way.
TORCH_LIBRARY_IMPL(polycast, Autograd, library) {
  for (const char* name : {"adam_step_", "sgd_step_", "find_non_finite", "norm", "unscale_", "update_scale_"}) {
    library.impl(name, torch::CppFunction::makeFallthrough());
  }
}
