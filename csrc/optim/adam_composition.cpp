// adam_step_ as a composition of ATen ops.
#include <ATen/ops/expm1.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/sqrt.h>
#include <torch/library.h>

#include "multi_tensor/flags.h"
#include "optim/adam.h"
#include "optim/composition.h"

namespace polycast::optim {

void compose(const AdamStep& step) {
  check(step);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Composition composition(step);
  const RealList params(step.params), grads(step.grads), exp_avgs(step.exp_avgs), exp_avg_sqs(step.exp_avg_sqs);
  const RealList maxima(step.max_exp_avg_sqs);
  const bool decays = step.weight_decay != 0;
  for (size_t index = 0; index < step.params.size(); ++index) {
    const at::ScalarType type = composition.type_for(params[index]);
    AdamElement<at::Tensor> element{
        params.get(index, type),
        composition.gradient(grads[index], type),
        exp_avgs.get(index, type),
        exp_avg_sqs.get(index, type),
        maxima.get(index, type)};
    const at::Tensor count = step.steps[index] + 1;
    const auto constants = adam_constants<at::Tensor, double>(step, composition.lr(type), count.reshape({}).to(type));
    multi_tensor::with_flags(
        [&](auto amsgrad, auto decays_grad, auto decays_param) {
          adam_element<amsgrad, decays_grad, decays_param>(element, constants);
        },
        !step.max_exp_avg_sqs.empty(),
        decays && !step.decoupled_weight_decay,
        decays && step.decoupled_weight_decay);
    composition.write(params[index], element.param);
    composition.write(exp_avgs[index], element.exp_avg);
    composition.write(exp_avg_sqs[index], element.exp_avg_sq);
    composition.write(maxima[index], element.max_exp_avg_sq);
    composition.write(step.steps[index], count);
  }
  raise_versions(step);
}

}  // namespace polycast::optim

TORCH_LIBRARY_IMPL(polycast, CompositeExplicitAutograd, library) {
  library.impl("adam_step_", polycast::optim::kernel<polycast::optim::AdamStep, &polycast::optim::step_elsewhere>);
}
