// adam_step_ as a composition of ATen ops.
#include <ATen/ops/expm1.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/sqrt.h>
#include <torch/library.h>

#include "kernels/adam.h"
#include "kernels/composition.h"
#include "kernels/flags.h"

namespace polycast::optim {

void compose(const AdamStep& step, bool one_by_one) {
  compose_parts(step, one_by_one, [&](const auto& lists) {
    const AdamElement<at::Tensor> before{
        lists.values(0), lists.gradient(), lists.values(2), lists.values(3), lists.values(4)};
    const at::Tensor counters = lists.counters(), counts = counters + 1;
    auto constants = adam_constants<at::Tensor, double>(step, lists.lr(), counts.to(before.param.scalar_type()));
    constants.step_size = lists.spread(constants.step_size);
    constants.eps = lists.spread(constants.eps);
    AdamElement<at::Tensor> after = before;
    const bool decays = step.weight_decay != 0;
    multi_tensor::with_flags(
        [&](auto amsgrad, auto decays_grad, auto decays_param) {
          adam_element<amsgrad, decays_grad, decays_param>(after, constants);
        },
        !step.max_exp_avg_sqs.empty(),
        decays && !step.decoupled_weight_decay,
        decays && step.decoupled_weight_decay);
    lists.write(0, before.param, after.param);
    lists.write(2, before.exp_avg, after.exp_avg);
    lists.write(3, before.exp_avg_sq, after.exp_avg_sq);
    lists.write(4, before.max_exp_avg_sq, after.max_exp_avg_sq);
    lists.write_counters(counters, counts);
  });
}

}  // namespace polycast::optim

TORCH_LIBRARY_IMPL(polycast, CompositeExplicitAutograd, library) {
  library.impl("adam_step_", polycast::optim::kernel<polycast::optim::AdamStep, &polycast::optim::step_elsewhere>);
}
