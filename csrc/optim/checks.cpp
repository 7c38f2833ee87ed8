#include "optim/checks.h"

#include <cmath>

#include "multi_tensor/checks.h"

namespace polycast::optim {

namespace {

using multi_tensor::List;

constexpr const char* adam = "adam_step_";
constexpr const char* sgd = "sgd_step_";

void check_length(const char* op, const List& list, at::TensorList params) {
  TORCH_CHECK_VALUE(
      list.tensors.size() == params.size(),
      op,
      ": ",
      list.name,
      " holds ",
      list.tensors.size(),
      " tensors and params ",
      params.size(),
      "; pass one for each");
}

void check_scalars(const char* op, c10::Device device, const StepScalars& scalars) {
  multi_tensor::check_scalar(op, "lr", scalars.lr, scalars.lr.is_cpu() ? scalars.lr.device() : device);
  // On the host there is a value to look at.
  if (scalars.lr.is_cpu() && !scalars.lr.key_set().has(c10::DispatchKey::Python)) {
    const auto value = scalars.lr.item<double>();
    TORCH_CHECK_VALUE(!std::isnan(value), op, ": lr is ", value, "; pass a number");
  }
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

void check_arguments(const AdamLists& lists, const StepScalars& scalars) {
  check_length(adam, {"grads", lists.grads, false}, lists.params);
  check_length(adam, {"exp_avgs", lists.exp_avgs, true}, lists.params);
  check_length(adam, {"exp_avg_sqs", lists.exp_avg_sqs, true}, lists.params);
  check_length(adam, {"steps", lists.steps, true}, lists.params);
  if (!lists.max_exp_avg_sqs.empty()) {
    check_length(adam, {"max_exp_avg_sqs", lists.max_exp_avg_sqs, true}, lists.params);
  }
  if (!lists.params.empty()) {
    multi_tensor::check_counters(adam, {"params", lists.params, true}, {"steps", lists.steps, true});
    check_scalars(adam, lists.params[0].device(), scalars);
  }
}

void check_arguments(const SgdLists& lists, const StepScalars& scalars) {
  check_length(sgd, {"grads", lists.grads, false}, lists.params);
  if (!lists.momentum_buffers.empty()) {
    check_length(sgd, {"momentum_buffers", lists.momentum_buffers, true}, lists.params);
  }
  if (!lists.params.empty()) {
    multi_tensor::check_counters(
        sgd, {"params", lists.params, true}, {"momentum_started", lists.momentum_started, true});
    check_scalars(sgd, lists.params[0].device(), scalars);
  }
}

void check_tensors(const AdamLists& lists) {
  multi_tensor::check_lists(
      adam,
      {{"params", lists.params, true},
       {"grads", lists.grads, false},
       {"exp_avgs", lists.exp_avgs, true},
       {"exp_avg_sqs", lists.exp_avg_sqs, true},
       {"max_exp_avg_sqs", lists.max_exp_avg_sqs, true}});
}

void check_tensors(const SgdLists& lists) {
  multi_tensor::check_lists(
      sgd,
      {{"params", lists.params, true},
       {"grads", lists.grads, false},
       {"momentum_buffers", lists.momentum_buffers, true}});
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
