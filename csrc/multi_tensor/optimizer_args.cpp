#include "multi_tensor/optimizer_args.h"

#include <cmath>

#include "multi_tensor/checks.h"

namespace polycast::optim {

StepLists adam_lists(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList max_exp_avg_sqs,
    at::TensorList steps) {
  return {
      "adam_step_",
      {{"params", params, true},
       {"grads", grads, false},
       {"exp_avgs", exp_avgs, true},
       {"exp_avg_sqs", exp_avg_sqs, true},
       {"max_exp_avg_sqs", max_exp_avg_sqs, true, /*optional=*/true}},
      {"steps", steps, true}};
}

StepLists sgd_lists(at::TensorList params, at::TensorList grads, at::TensorList momentum_buffers) {
  return {
      "sgd_step_",
      {{"params", params, true},
       {"grads", grads, false},
       {"momentum_buffers", momentum_buffers, true, /*optional=*/true}},
      {"", {}, false, /*optional=*/true}};
}

void check_arguments(const StepLists& lists, const StepScalars& scalars) {
  const char* const op = lists.op;
  multi_tensor::check_lengths(op, lists.streams);
  multi_tensor::check_lengths(op, {lists.streams[0], lists.counters});
  if (lists.params().empty()) {
    return;
  }
  const c10::Device device = lists.params()[0].device();
  const at::Tensor& lr = scalars.lr;
  multi_tensor::check_scalar(op, "lr", lr, lr.is_cpu() ? lr.device() : device);
  // On the host the value can be read without a sync.
  if (lr.is_cpu() && !lr.key_set().has(c10::DispatchKey::Python)) {
    const auto value = lr.item<double>();
    TORCH_CHECK_VALUE(!std::isnan(value), op, ": lr is ", value, "; pass a number");
  }
  multi_tensor::check_found_inf(op, scalars.found_inf, device);
  multi_tensor::check_scalar(op, "grad_scale", scalars.grad_scale, device);
  multi_tensor::check_scalar(op, "clip_coef", scalars.clip_coef, device);
}

void check(const StepLists& lists, const StepScalars& scalars, const multi_tensor::Names& names) {
  check_arguments(lists, scalars);
  multi_tensor::check_lists(lists.op, lists.streams, names);
  multi_tensor::check_counters(lists.op, lists.streams[0], lists.counters, names);
}

void raise_versions(const StepLists& lists) {
  for (const multi_tensor::List& list : lists.streams) {
    if (list.written) {
      multi_tensor::raise_versions(list.tensors);
    }
  }
  multi_tensor::raise_versions(lists.counters.tensors);
}

}  // namespace polycast::optim
