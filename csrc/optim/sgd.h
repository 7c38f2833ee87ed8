// One element of an SGD step, the same for every device. The order of the operations is that of torch.optim.
//
// Ilya Sutskever and others: On the importance of initialization and momentum in deep learning (2013), in the form that
// torch.optim.SGD documents.
#pragma once

#include <c10/macros/Macros.h>

namespace polycast::optim {

struct SgdOptions {
  double lr;
  double weight_decay;
  double momentum;
  double dampening;
};

// What all elements of a tensor have in common at a step.
template <class Math>
struct SgdConstants {
  Math grad_factor;
  Math weight_decay;
  Math momentum;
  Math one_minus_dampening;
  Math lr;
};

// The first step makes the momentum buffer the gradient itself: the buffer is zero before it.
template <class Math>
C10_HOST_DEVICE SgdConstants<Math> sgd_constants(const SgdOptions& options, bool first, double grad_factor) {
  SgdConstants<Math> constants;
  constants.grad_factor = static_cast<Math>(grad_factor);
  constants.weight_decay = static_cast<Math>(options.weight_decay);
  constants.momentum = static_cast<Math>(options.momentum);
  constants.one_minus_dampening = static_cast<Math>(first ? 1 : 1 - options.dampening);
  constants.lr = static_cast<Math>(options.lr);
  return constants;
}

template <class Math, bool momentum, bool nesterov, bool decays_grad>
C10_HOST_DEVICE C10_ALWAYS_INLINE void sgd_element(
    Math& param, Math grad, Math& momentum_buffer, const SgdConstants<Math>& constants) {
  grad *= constants.grad_factor;
  if (decays_grad) {
    grad += constants.weight_decay * param;
  }
  if (momentum) {
    momentum_buffer = momentum_buffer * constants.momentum + constants.one_minus_dampening * grad;
    grad = nesterov ? grad + constants.momentum * momentum_buffer : momentum_buffer;
  }
  param -= constants.lr * grad;
}

}  // namespace polycast::optim
