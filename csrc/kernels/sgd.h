// One element of an SGD step, the same for every device. The order of the operations is that of torch.optim.
//
// Ilya Sutskever and others: On the importance of initialization and momentum in deep learning (2013), in the form that
// torch.optim.SGD documents.
//
// Math is float or double, or a tensor. Options are what has the numbers of sgd_step_.
#pragma once

#include <c10/macros/Macros.h>

namespace polycast::optim {

// What all elements of a tensor have in common at a step. Number is the type of what depends on the options alone.
template <class Math, class Number = Math, class Share = Number>
struct SgdConstants {
  Math lr;
  Number weight_decay;
  Number momentum;
  Share undampened;  // of the gradient, what enters the buffer: all at the first step, before which that is zero
};

template <class Math>
struct SgdElement {
  Math param;
  Math grad;
  Math momentum_buffer;
};

template <bool momentum, bool nesterov, bool decays_grad, class Math, class Number, class Share>
C10_HOST_DEVICE C10_ALWAYS_INLINE void sgd_element(
    SgdElement<Math>& element, const SgdConstants<Math, Number, Share>& constants) {
  Math grad = decays_grad ? element.grad + element.param * constants.weight_decay : element.grad;
  if (momentum) {
    element.momentum_buffer = element.momentum_buffer * constants.momentum + grad * constants.undampened;
    grad = nesterov ? grad + element.momentum_buffer * constants.momentum : element.momentum_buffer;
  }
  element.param = element.param - grad * constants.lr;
}

}  // namespace polycast::optim
