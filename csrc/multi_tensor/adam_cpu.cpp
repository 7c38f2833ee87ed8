// The operator `adam_step_` on the CPU: one pass over all elements.
#include <torch/library.h>

#include <iterator>

#include "multi_tensor/adam.h"
#include "multi_tensor/fused_step.h"

namespace polycast::optim {

namespace {

// The streams are `param`, `grad`, `exp_avg`, `exp_avg_sq` and, for `amsgrad`, `max_exp_avg_sq`.
template <class Math, bool amsgrad, bool decays_grad>
struct AdamAlgorithm {
  static constexpr size_t streams = amsgrad ? 5 : 4;
  static constexpr std::array<bool, 5> written{true, false, true, true, true};

  const std::vector<AdamConstants<Math>>& constants;
  const Math grad_factor;

  [[gnu::always_inline]] void operator()(
      const std::array<Math*, streams>& at, int64_t count, const multi_tensor::Item<streams>& item) const {
    const AdamConstants<Math> shared = constants[item.index];
    const Math factor = grad_factor;
    Math* const param = at[0];
    const Math* const grad = at[1];
    Math* const exp_avg = at[2];
    Math* const exp_avg_sq = at[3];
    Math* const max_exp_avg_sq = at[amsgrad ? 4 : 3];
#pragma GCC ivdep
    for (int64_t index = 0; index < count; ++index) {
      AdamElement<Math> element{
          param[index], grad[index] * factor, exp_avg[index], exp_avg_sq[index], max_exp_avg_sq[index]};
      adam_element<amsgrad, decays_grad>(element, shared);
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

// Returns the constants of each tensor. A tensor with the step of the previous tensor gets a copy of its constants.
template <class Math>
std::vector<AdamConstants<Math>> constants_of(const AdamOptions& options, const std::vector<double>& steps) {
  std::vector<AdamConstants<Math>> result;
  result.reserve(steps.size());
  for (size_t index = 0; index < steps.size(); ++index) {
    const bool is_same = index > 0 && steps[index] == steps[index - 1];
    result.push_back(is_same ? result.back() : adam_constants<Math>(options, steps[index]));
  }
  return result;
}

void adam_step_cpu(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList max_exp_avg_sqs,
    at::TensorList steps,
    double lr,
    double beta1,
    double beta2,
    double weight_decay,
    double eps,
    bool decoupled_weight_decay,
    bool maximize,
    const OptionalTensor& lr_tensor,
    const OptionalTensor& found_inf,
    const OptionalTensor& grad_scale,
    const OptionalTensor& clip_coef) {
  const StepScalars scalars{lr_tensor, found_inf, grad_scale, clip_coef};
  const auto run_all = [&](auto has_maximum, auto decays) {
    constexpr bool amsgrad = has_maximum, decays_grad = decays;
    using Algorithm = AdamAlgorithm<float, amsgrad, decays_grad>;
    const std::vector<at::TensorList> lists{params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps};
    fused_step<Algorithm>("adam_step_", lists, scalars, [&](const auto& items) {
      std::vector<double> counts;
      counts.reserve(steps.size());
      std::transform(steps.begin(), steps.end(), std::back_inserter(counts), &advance);
      const AdamOptions options{value_or(lr_tensor, lr), beta1, beta2, weight_decay, eps, decoupled_weight_decay};
      const auto in_float = constants_of<float>(options, counts);
      const auto in_double =
          items.has_double() ? constants_of<double>(options, counts) : std::vector<AdamConstants<double>>();
      const double factor = grad_factor(scalars, maximize);
      items.apply(
          Algorithm{in_float, static_cast<float>(factor)},
          AdamAlgorithm<double, amsgrad, decays_grad>{in_double, factor});
    });
  };
  dispatch_bools(run_all, !max_exp_avg_sqs.empty(), weight_decay != 0 && !decoupled_weight_decay);
}

TORCH_LIBRARY_IMPL(polycast, CPU, library) {
  library.impl("adam_step_", &adam_step_cpu);
}

}  // namespace

}  // namespace polycast::optim
