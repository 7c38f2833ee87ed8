// sgd_step_ as a composition of ATen ops.
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

#include "kernels/composition.h"
#include "kernels/flags.h"
#include "kernels/sgd.h"

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

void compose(const SgdStep& step, bool one_by_one) {
  compose_parts(step, one_by_one, [&](const auto& lists) {
    const SgdElement<at::Tensor> before{lists.values(0), lists.gradient(), lists.values(2)};
    SgdElement<at::Tensor> after = before;
    if (step.momentum_started.empty()) {
      step_element(step, lists.lr(), 1 - step.dampening, after);
    } else {
      const at::Tensor started = lists.counters();
      const at::Tensor whole = at::ones_like(started, before.param.scalar_type());
      const at::Tensor shares = at::where(started.ne(0), whole * (1 - step.dampening), whole);
      step_element(step, lists.lr(), lists.spread(shares), after);
      lists.write_counters(started, whole);
    }
    lists.write(0, before.param, after.param);
    lists.write(2, before.momentum_buffer, after.momentum_buffer);
  });
}

}  // namespace polycast::optim

TORCH_LIBRARY_IMPL(polycast, CompositeExplicitAutograd, library) {
  library.impl("sgd_step_", polycast::optim::kernel<polycast::optim::SgdStep, &polycast::optim::step_elsewhere>);
}
