// One element of an Adam or AdamW step, the same for every device.
//
// Diederik P. Kingma, Jimmy Ba: Adam, a method for stochastic optimization (2014); Ilya Loshchilov, Frank Hutter:
// Decoupled weight decay regularization (2017); Sashank J. Reddi and others: On the convergence of Adam and beyond
// (2018) for amsgrad. The order of the operations is that of torch.optim.
#pragma once

#include <c10/macros/Macros.h>

#include <cmath>

namespace polycast::optim {

struct AdamOptions {
  double lr;
  double beta1;
  double beta2;
  double weight_decay;
  double eps;
  bool decoupled_weight_decay;
};

// What all elements of a tensor have in common at a step.
template <class Math>
struct AdamConstants {
  Math grad_factor;
  Math weight_decay;  // added to the gradient
  Math param_factor;  // the decoupled weight decay
  Math lerp_factor;
  Math beta2;
  Math one_minus_beta2;
  Math step_size;
  Math eps;
  bool near_exp_avg;  // rather than near the gradient
};

// `step` counts this step. Both bias corrections are moved into constants: step_size and eps, which are multiplied by
// the square root of the second one instead of dividing each element by it.
template <class Math>
C10_HOST_DEVICE AdamConstants<Math> adam_constants(const AdamOptions& options, double step, double grad_factor) {
  const double correction1 = 1 - std::pow(options.beta1, step);
  const double correction2 = std::sqrt(1 - std::pow(options.beta2, step));
  AdamConstants<Math> constants;
  constants.grad_factor = static_cast<Math>(grad_factor);
  constants.weight_decay = static_cast<Math>(options.decoupled_weight_decay ? 0 : options.weight_decay);
  constants.param_factor =
      static_cast<Math>(options.decoupled_weight_decay ? 1 - options.lr * options.weight_decay : 1);
  constants.beta2 = static_cast<Math>(options.beta2);
  constants.one_minus_beta2 = static_cast<Math>(1 - options.beta2);
  constants.step_size = static_cast<Math>(options.lr / correction1 * correction2);
  constants.eps = static_cast<Math>(options.eps * correction2);
  // The running average is interpolated from the nearer end, as by torch.lerp: exact where beta1 is 0 or 1.
  constants.near_exp_avg = options.beta1 > 0.5;
  constants.lerp_factor = static_cast<Math>(constants.near_exp_avg ? 1 - options.beta1 : -options.beta1);
  return constants;
}

template <class Math>
struct AdamElement {
  Math param;
  Math grad;
  Math exp_avg;
  Math exp_avg_sq;
  Math max_exp_avg_sq;
};

template <class Math, bool amsgrad, bool decays_grad>
C10_HOST_DEVICE C10_ALWAYS_INLINE void adam_element(AdamElement<Math>& element, const AdamConstants<Math>& constants) {
  Math grad = element.grad * constants.grad_factor;
  if (decays_grad) {
    grad += constants.weight_decay * element.param;
  }
  const Math difference = grad - element.exp_avg;
  const Math base = constants.near_exp_avg ? element.exp_avg : grad;
  element.exp_avg = base + constants.lerp_factor * difference;
  element.exp_avg_sq = element.exp_avg_sq * constants.beta2 + constants.one_minus_beta2 * grad * grad;
  Math square = element.exp_avg_sq;
  if (amsgrad) {
    square = element.max_exp_avg_sq <= square || !(square == square) ? square : element.max_exp_avg_sq;
    element.max_exp_avg_sq = square;
  }
  const Math direction = element.exp_avg / (std::sqrt(square) + constants.eps);
  element.param = element.param * constants.param_factor - constants.step_size * direction;
}

}  // namespace polycast::optim
