// adam_step_ as a composition of ATen ops.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/maximum.h>
#include <torch/library.h>

#include <cmath>

#include "multi_tensor/lists.h"
#include "optim/adam.h"
#include "optim/checks.h"
#include "optim/composition.h"

namespace polycast::optim {

namespace {

// 1 - beta^step, which float32 would lose to cancellation at the first steps.
at::Tensor bias_correction(double beta, const at::Tensor& step) {
  return -(step * std::log(beta)).expm1();
}

struct AdamTensors {
  at::Tensor param;
  at::Tensor grad;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor max_exp_avg_sq;  // undefined without amsgrad
  at::Tensor step;
};

void step_one(const Composition& composition, const AdamOptions& options, const AdamTensors& tensors) {
  const at::ScalarType type = Composition::arithmetic_type(tensors.param);
  const at::Tensor lr = composition.lr(type);
  at::Tensor grad = composition.gradient(tensors.grad, type);
  at::Tensor param = tensors.param.to(type);
  if (options.decoupled_weight_decay) {
    param = param * (1 - lr * options.weight_decay);
  } else if (options.weight_decay != 0) {
    grad = grad.add(param, options.weight_decay);
  }
  const at::Tensor exp_avg = tensors.exp_avg.to(type).lerp(grad, 1 - options.beta1);
  const at::Tensor exp_avg_sq = tensors.exp_avg_sq.to(type) * options.beta2 + grad * grad * (1 - options.beta2);
  at::Tensor square = exp_avg_sq;
  if (tensors.max_exp_avg_sq.defined()) {
    square = at::maximum(tensors.max_exp_avg_sq.to(type), exp_avg_sq);
    composition.write(tensors.max_exp_avg_sq, square);
  }
  const at::Tensor step = tensors.step + 1;
  const at::Tensor count = step.reshape({}).to(type);
  const at::Tensor correction = bias_correction(options.beta2, count).sqrt();
  const at::Tensor step_size = lr / bias_correction(options.beta1, count) * correction;
  composition.write(tensors.param, param - step_size * (exp_avg / (square.sqrt() + correction * options.eps)));
  composition.write(tensors.exp_avg, exp_avg);
  composition.write(tensors.exp_avg_sq, exp_avg_sq);
  composition.write(tensors.step, step);
}

void adam_step_composition(
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
  check_arguments(lists, {lr, found_inf, grad_scale, clip_coef});
  check_tensors(lists);
  check_memory(lists);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Composition composition(lr, maximize, found_inf, grad_scale, clip_coef);
  const AdamOptions options{0, beta1, beta2, weight_decay, eps, decoupled_weight_decay};
  const std::vector<at::Tensor> real_params = multi_tensor::as_real(params);
  const std::vector<at::Tensor> real_grads = multi_tensor::as_real(grads);
  const std::vector<at::Tensor> averages = multi_tensor::as_real(exp_avgs);
  const std::vector<at::Tensor> squares = multi_tensor::as_real(exp_avg_sqs);
  const std::vector<at::Tensor> maxima = multi_tensor::as_real(max_exp_avg_sqs);
  for (size_t index = 0; index < params.size(); ++index) {
    step_one(
        composition,
        options,
        {real_params[index],
         real_grads[index],
         averages[index],
         squares[index],
         maxima.empty() ? at::Tensor() : maxima[index],
         steps[index]});
  }
  raise_versions(lists);
}

}  // namespace

}  // namespace polycast::optim

TORCH_LIBRARY_IMPL(polycast, CompositeExplicitAutograd, library) {
  library.impl("adam_step_", TORCH_FN(polycast::optim::adam_step_composition));
}
