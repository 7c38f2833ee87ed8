#include "optim/checks.h"

#include "multi_tensor/lists.h"

namespace polycast::optim {

namespace {

using multi_tensor::List;

constexpr const char* adam = "adam_step_";
constexpr const char* sgd = "sgd_step_";

void check_length(const char* op, const List& list, at::TensorList params) {
  TORCH_CHECK_VALUE(
      list.tensors.size() == params.size(), op, ": ", list.name, " holds ", list.tensors.size(),
      " tensors and params ", params.size(), "; pass one for each");
}

void check_scalars(const char* op, c10::Device device, const StepScalars& scalars) {
  multi_tensor::check_scalar(op, "lr", scalars.lr, scalars.lr.is_cpu() ? scalars.lr.device() : device);
  multi_tensor::check_found_inf(op, scalars.found_inf, device);
  multi_tensor::check_scalar(op, "grad_scale", scalars.grad_scale, device);
  multi_tensor::check_scalar(op, "clip_coef", scalars.clip_coef, device);
}

void check_memory(const char* op, c10::ArrayRef<List> lists, std::optional<size_t> fingerprint) {
  if (fingerprint.has_value()) {
    multi_tensor::check_disjoint(op, lists, *fingerprint);
  } else {
    multi_tensor::check_disjoint(op, lists);
  }
}

}  // namespace

void check_step(const AdamLists& lists, const StepScalars& scalars) {
  const List first{"params", lists.params, true};
  const List grads{"grads", lists.grads, false};
  const List averages{"exp_avgs", lists.exp_avgs, true};
  const List squares{"exp_avg_sqs", lists.exp_avg_sqs, true};
  const List steps{"steps", lists.steps, true};
  for (const List& list : {grads, averages, squares, steps}) {
    check_length(adam, list, lists.params);
  }
  multi_tensor::check_lists(adam, {first, grads, averages, squares, {"max_exp_avg_sqs", lists.max_exp_avg_sqs, true}});
  if (!lists.params.empty()) {
    multi_tensor::check_counters(adam, first, steps);
    check_scalars(adam, lists.params[0].device(), scalars);
  }
}

void check_step(const SgdLists& lists, const StepScalars& scalars) {
  const List first{"params", lists.params, true};
  const List grads{"grads", lists.grads, false};
  check_length(sgd, grads, lists.params);
  multi_tensor::check_lists(sgd, {first, grads, {"momentum_buffers", lists.momentum_buffers, true}});
  if (!lists.params.empty()) {
    multi_tensor::check_counters(sgd, first, {"momentum_started", lists.momentum_started, true});
    check_scalars(sgd, lists.params[0].device(), scalars);
  }
}

void check_memory(const AdamLists& lists, std::optional<size_t> fingerprint) {
  check_memory(
      adam,
      {{"params", lists.params, true},
       {"grads", lists.grads, false},
       {"exp_avgs", lists.exp_avgs, true},
       {"exp_avg_sqs", lists.exp_avg_sqs, true},
       {"max_exp_avg_sqs", lists.max_exp_avg_sqs, true},
       {"steps", lists.steps, true}},
      fingerprint);
}

void check_memory(const SgdLists& lists, std::optional<size_t> fingerprint) {
  check_memory(
      sgd,
      {{"params", lists.params, true},
       {"grads", lists.grads, false},
       {"momentum_buffers", lists.momentum_buffers, true},
       {"momentum_started", lists.momentum_started, true}},
      fingerprint);
}

void raise_versions(const AdamLists& lists) {
  for (const at::TensorList list :
       {lists.params, lists.exp_avgs, lists.exp_avg_sqs, lists.max_exp_avg_sqs, lists.steps}) {
    multi_tensor::raise_versions(list);
  }
}

void raise_versions(const SgdLists& lists) {
  for (const at::TensorList list : {lists.params, lists.momentum_buffers, lists.momentum_started}) {
    multi_tensor::raise_versions(list);
  }
}

}  // namespace polycast::optim
