// adam_step_ on the CPU: one pass over all elements.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include "multi_tensor/items.h"
#include "multi_tensor/lists.h"
#include "optim/adam.h"
#include "optim/checks.h"
#include "optim/scalars_cpu.h"

namespace polycast::optim {

namespace {

// Streams: param, exp_avg, exp_avg_sq, grad and, for amsgrad, max_exp_avg_sq.
template <class Math, bool amsgrad, bool decays_grad>
struct AdamAlgorithm {
  static constexpr size_t streams = amsgrad ? 5 : 4;
  static constexpr std::array<bool, 5> written{true, true, true, false, true};

  const std::vector<AdamConstants<Math>>& constants;

  [[gnu::always_inline]] void operator()(
      const std::array<Math*, streams>& at, int64_t count, const multi_tensor::Item<streams>& item) const {
    const AdamConstants<Math> shared = constants[item.index];
    Math* const param = at[0];
    Math* const exp_avg = at[1];
    Math* const exp_avg_sq = at[2];
    const Math* const grad = at[3];
    Math* const max_exp_avg_sq = at[amsgrad ? 4 : 2];
#pragma GCC ivdep
    for (int64_t index = 0; index < count; ++index) {
      AdamElement<Math> element{param[index], grad[index], exp_avg[index], exp_avg_sq[index], max_exp_avg_sq[index]};
      adam_element<Math, amsgrad, decays_grad>(element, shared);
      param[index] = element.param;
      exp_avg[index] = element.exp_avg;
      exp_avg_sq[index] = element.exp_avg_sq;
      if (amsgrad) {
        max_exp_avg_sq[index] = element.max_exp_avg_sq;
      }
    }
  }
};

double advance(const at::Tensor& step) {
  return step.scalar_type() == at::kFloat ? ++*step.mutable_data_ptr<float>() : ++*step.mutable_data_ptr<double>();
}

// Neighbours mostly are at the same step.
template <class Math>
std::vector<AdamConstants<Math>> constants_of(
    const AdamOptions& options, const std::vector<double>& steps, double grad_factor) {
  std::vector<AdamConstants<Math>> result;
  result.reserve(steps.size());
  for (size_t index = 0; index < steps.size(); ++index) {
    result.push_back(
        index > 0 && steps[index] == steps[index - 1] ? result.back()
                                                      : adam_constants<Math>(options, steps[index], grad_factor));
  }
  return result;
}

// What is the same for every tensor of a step.
struct Shared {
  AdamOptions options;
  StepScalars scalars;
  bool maximize;
};

template <class Math, bool amsgrad, bool decays_grad, class Items>
void run(const Shared& shared, const std::vector<double>& steps, const Items& items) {
  if (!items.empty()) {
    const double factor = grad_factor(shared.scalars.grad_scale, shared.scalars.clip_coef, shared.maximize);
    const std::vector<AdamConstants<Math>> constants = constants_of<Math>(shared.options, steps, factor);
    multi_tensor::walk<Math>(AdamAlgorithm<Math, amsgrad, decays_grad>{constants}, items);
  }
}

template <bool amsgrad, bool decays_grad, size_t n>
void run_all(const Shared& shared, const AdamLists& lists, const std::array<at::TensorList, n>& streams) {
  const multi_tensor::Items<n> items(
      streams, AdamAlgorithm<float, amsgrad, decays_grad>::written, [&] { check_tensors(lists); });
  check_memory(lists, c10::hash_combine(items.fingerprint(), multi_tensor::fingerprint(lists.steps)));
  if (!is_skipped(shared.scalars.found_inf)) {
    std::vector<double> steps;
    steps.reserve(lists.steps.size());
    for (const at::Tensor& step : lists.steps) {
      steps.push_back(advance(step));
    }
    run<float, amsgrad, decays_grad>(shared, steps, items.in_float);
    run<double, amsgrad, decays_grad>(shared, steps, items.in_double);
    items.write_back();
  }
  raise_versions(lists);
}

void adam_step_cpu(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList max_exp_avg_sqs,
    at::TensorList steps,
    const at::Tensor& lr,
    double beta1,
    double beta2,
    double weight_decay,
    double eps,
    bool decoupled_weight_decay,
    bool maximize,
    const OptionalTensor& found_inf,
    const OptionalTensor& grad_scale,
    const OptionalTensor& clip_coef) {
  const AdamLists lists{params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps};
  const StepScalars scalars{lr, found_inf, grad_scale, clip_coef};
  check_arguments(lists, scalars);
  const AdamOptions options{lr.item<double>(), beta1, beta2, weight_decay, eps, decoupled_weight_decay};
  const Shared shared{options, scalars, maximize};
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const bool decays_grad = weight_decay != 0 && !decoupled_weight_decay;
  if (max_exp_avg_sqs.empty()) {
    const std::array<at::TensorList, 4> streams{params, exp_avgs, exp_avg_sqs, grads};
    decays_grad ? run_all<false, true>(shared, lists, streams) : run_all<false, false>(shared, lists, streams);
  } else {
    const std::array<at::TensorList, 5> streams{params, exp_avgs, exp_avg_sqs, grads, max_exp_avg_sqs};
    decays_grad ? run_all<true, true>(shared, lists, streams) : run_all<true, false>(shared, lists, streams);
  }
}

}  // namespace

}  // namespace polycast::optim

TORCH_LIBRARY_IMPL(polycast, CPU, library) {
  library.impl("adam_step_", TORCH_FN(polycast::optim::adam_step_cpu));
}
