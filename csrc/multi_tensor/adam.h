// One element of an Adam or AdamW step, in float or double.
//
// Diederik P. Kingma, Jimmy Ba: Adam, a method for stochastic optimization (2014); Ilya Loshchilov, Frank Hutter:
// Decoupled weight decay regularization (2017); Sashank J. Reddi and others: On the convergence of Adam and beyond
// (2018) for `amsgrad`. The operations follow `torch.optim`, but the constants include the bias corrections.
#pragma once

#include <c10/macros/Macros.h>

#include <cmath>

namespace polycast::optim {

// The arguments of `adam_step_` that determine the constants.
struct AdamOptions {
  double lr;
  double beta1;
  double beta2;
  double weight_decay;
  double eps;
  bool decoupled_weight_decay;
};

// The constants of one tensor in a step.
template <class Math>
struct AdamConstants {
  Math weight_decay;  // The parameter times this factor is added to the gradient.
  Math param_factor;  // The parameter's factor for decoupled weight decay.
  Math lerp_factor;
  Math beta2;
  Math one_minus_beta2;
  Math step_size;
  Math eps;
  bool near_exp_avg;  // The new `exp_avg` is nearer to the old one than to the gradient.
};

// Returns 1 - beta^step in double, because cancellation in float32 would make it inexact in the first steps.
inline double bias_correction(double beta, double step) {
  return -std::expm1(step * std::log(beta));
}

// Returns the constants, including both bias corrections. `step` counts the steps, including this one. `step_size` and
// `eps` are multiplied by the square root of the second correction, so that no element is divided by this root.
template <class Math>
AdamConstants<Math> adam_constants(const AdamOptions& options, double step) {
  const double correction = std::sqrt(bias_correction(options.beta2, step));
  // Like `torch.lerp`, the running average starts from the nearer end, so that it is exact if `beta1` is 0 or 1.
  const bool near_exp_avg = options.beta1 > 0.5;
  return {
      static_cast<Math>(options.weight_decay),
      static_cast<Math>(1 - options.lr * (options.decoupled_weight_decay ? options.weight_decay : 0)),
      static_cast<Math>(near_exp_avg ? 1 - options.beta1 : -options.beta1),
      static_cast<Math>(options.beta2),
      static_cast<Math>(1 - options.beta2),
      static_cast<Math>(options.lr / bias_correction(options.beta1, step) * correction),
      static_cast<Math>(correction * options.eps),
      near_exp_avg};
}

template <class Math>
struct AdamElement {
  Math param;
  Math grad;
  Math exp_avg;
  Math exp_avg_sq;
  Math max_exp_avg_sq;
};

// Returns the larger number, or NaN if either is NaN.
template <class Math>
C10_ALWAYS_INLINE Math maximum(Math left, Math right) {
  return left <= right || !(right == right) ? right : left;
}

template <bool amsgrad, bool decays_grad, class Math>
C10_ALWAYS_INLINE void adam_element(AdamElement<Math>& element, const AdamConstants<Math>& constants) {
  const Math grad = decays_grad ? element.grad + element.param * constants.weight_decay : element.grad;
  const Math param = decays_grad ? element.param : element.param * constants.param_factor;
  const Math base = constants.near_exp_avg ? element.exp_avg : grad;
  element.exp_avg = base + (grad - element.exp_avg) * constants.lerp_factor;
  element.exp_avg_sq = element.exp_avg_sq * constants.beta2 + grad * constants.one_minus_beta2 * grad;
  Math square = element.exp_avg_sq;
  if (amsgrad) {
    square = maximum(element.max_exp_avg_sq, square);
    element.max_exp_avg_sq = square;
  }
  element.param = param - element.exp_avg / (std::sqrt(square) + constants.eps) * constants.step_size;
}

}  // namespace polycast::optim
