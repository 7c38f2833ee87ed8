// One element of an SGD step, in float or double. The operations are in the order of `torch.optim`.
//
// Ilya Sutskever and others: On the importance of initialization and momentum in deep learning (2013), in the form that
// `torch.optim.SGD` documents, without dampening. A momentum buffer starts at zero.
#pragma once

#include <c10/macros/Macros.h>

namespace polycast::optim {

// The constants of a step.
template <class Math>
struct SgdConstants {
  Math lr;
  Math weight_decay;
  Math momentum;
};

template <class Math>
struct SgdElement {
  Math param;
  Math grad;
  Math momentum_buffer;
};

template <bool momentum, bool nesterov, bool decays_grad, class Math>
C10_ALWAYS_INLINE void sgd_element(SgdElement<Math>& element, const SgdConstants<Math>& constants) {
  Math grad = decays_grad ? element.grad + element.param * constants.weight_decay : element.grad;
  if (momentum) {
    element.momentum_buffer = element.momentum_buffer * constants.momentum + grad;
    grad = nesterov ? grad + element.momentum_buffer * constants.momentum : element.momentum_buffer;
  }
  element.param = element.param - grad * constants.lr;
}

}  // namespace polycast::optim
