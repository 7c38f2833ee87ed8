// sgd_step_ as a composition of ATen ops.
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

#include "multi_tensor/flags.h"
#include "optim/composition.h"
#include "optim/sgd.h"

namespace polycast::optim {

namespace {

template <class Share>
void step_element(const SgdStep& step, const at::Tensor& lr, const Share& undampened, SgdElement<at::Tensor>& element) {
  const SgdConstants<at::Tensor, double, Share> constants{lr, step.weight_decay, step.momentum, undampened};
  multi_tensor::with_flags(
      [&](auto momentum, auto nesterov, auto decays_grad) {
        sgd_element<momentum, nesterov, decays_grad>(element, constants);
      },
      !step.momentum_buffers.empty(),
      step.nesterov,
      step.weight_decay != 0);
}

}  // namespace

void compose(const SgdStep& step) {
  check(step);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Composition composition(step);
  const RealList params(step.params), grads(step.grads), buffers(step.momentum_buffers);
  for (size_t index = 0; index < step.params.size(); ++index) {
    const at::ScalarType type = composition.type_for(params[index]);
    const at::Tensor lr = composition.lr(type);
    SgdElement<at::Tensor> element{
        params.get(index, type), composition.gradient(grads[index], type), buffers.get(index, type)};
    if (step.momentum_started.empty()) {
      step_element(step, lr, 1 - step.dampening, element);
    } else {
      const at::Tensor& started = step.momentum_started[index];
      const at::Tensor whole = at::ones_like(started);
      const at::Tensor all = whole.reshape({}).to(type);
      step_element(step, lr, at::where(started.reshape({}).ne(0), all * (1 - step.dampening), all), element);
      composition.write(started, whole);
    }
    composition.write(params[index], element.param);
    composition.write(buffers[index], element.momentum_buffer);
  }
  raise_versions(step);
}

}  // namespace polycast::optim

TORCH_LIBRARY_IMPL(polycast, CompositeExplicitAutograd, library) {
  library.impl("sgd_step_", polycast::optim::kernel<polycast::optim::SgdStep, &polycast::optim::step_elsewhere>);
}
