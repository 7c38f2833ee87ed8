// The arguments of adam_step_ and sgd_step_, each spelled once beside the schemas. What checks them, the kernels, the
// call through the dispatcher and what Python calls follow these two.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/checks.h"
#include "kernels/lists.h"

namespace polycast::optim {

using OptionalTensor = std::optional<at::Tensor>;

struct AdamStep {
  static constexpr const char* name = "adam_step_";

  at::TensorList params;
  at::TensorList grads;
  at::TensorList exp_avgs;
  at::TensorList exp_avg_sqs;
  at::TensorList max_exp_avg_sqs;  // empty without amsgrad
  at::TensorList steps;
  at::Tensor lr;
  double beta1;
  double beta2;
  double weight_decay;
  double eps;
  bool decoupled_weight_decay;
  bool maximize;
  OptionalTensor found_inf;
  OptionalTensor grad_scale;
  OptionalTensor clip_coef;

  // Calls use with all of them, in the order of the schema.
  template <class Step, class Use>
  static decltype(auto) apply(Step& step, const Use& use) {
    return use(
        step.params,
        step.grads,
        step.exp_avgs,
        step.exp_avg_sqs,
        step.max_exp_avg_sqs,
        step.steps,
        step.lr,
        step.beta1,
        step.beta2,
        step.weight_decay,
        step.eps,
        step.decoupled_weight_decay,
        step.maximize,
        step.found_inf,
        step.grad_scale,
        step.clip_coef);
  }

  // The lists whose tensors have the sizes of the parameters, in this order, and the one of counters.
  std::array<multi_tensor::List, 5> streams() const {
    return {
        {{"params", params, true},
         {"grads", grads, false},
         {"exp_avgs", exp_avgs, true},
         {"exp_avg_sqs", exp_avg_sqs, true},
         {"max_exp_avg_sqs", max_exp_avg_sqs, true, true}}};
  }
  multi_tensor::List counters() const {
    return {"steps", steps, true};
  }
};

struct SgdStep {
  static constexpr const char* name = "sgd_step_";

  at::TensorList params;
  at::TensorList grads;
  at::TensorList momentum_buffers;  // empty without momentum
  at::TensorList momentum_started;  // empty without dampening
  at::Tensor lr;
  double weight_decay;
  double momentum;
  double dampening;
  bool nesterov;
  bool maximize;
  OptionalTensor found_inf;
  OptionalTensor grad_scale;
  OptionalTensor clip_coef;

  template <class Step, class Use>
  static decltype(auto) apply(Step& step, const Use& use) {
    return use(
        step.params,
        step.grads,
        step.momentum_buffers,
        step.momentum_started,
        step.lr,
        step.weight_decay,
        step.momentum,
        step.dampening,
        step.nesterov,
        step.maximize,
        step.found_inf,
        step.grad_scale,
        step.clip_coef);
  }

  std::array<multi_tensor::List, 3> streams() const {
    return {{{"params", params, true}, {"grads", grads, false}, {"momentum_buffers", momentum_buffers, true, true}}};
  }
  multi_tensor::List counters() const {
    return {"momentum_started", momentum_started, true, true};
  }
};

// The parameters of an operator: numbers, flags and lists by value, tensors by reference.
template <class... Arguments>
struct Signature {
  using Function = void(Arguments...);
};

template <class Member>
struct ArgumentOf {
  using Type = std::conditional_t<
      std::is_same_v<Member, at::Tensor> || std::is_same_v<Member, OptionalTensor>,
      const Member&,
      Member>;
};

struct SignatureOf {
  template <class... Members>
  Signature<typename ArgumentOf<Members>::Type...> operator()(const Members&...) const;
};

template <class Step>
using SignatureOfStep = decltype(Step::apply(std::declval<const Step&>(), SignatureOf{}));

// Makes a function over a step the kernel that is registered for it: `kernel<AdamStep, &run>`.
template <class Step, void (*run)(const Step&), class Arguments = SignatureOfStep<Step>>
struct Kernel;

template <class Step, void (*run)(const Step&), class... Arguments>
struct Kernel<Step, run, Signature<Arguments...>> {
  static void call(Arguments... arguments) {
    run(Step{arguments...});
  }
};

template <class Step, void (*run)(const Step&)>
constexpr auto kernel = &Kernel<Step, run>::call;

// The step on one of its parameters.
template <class Step>
Step only(Step step, size_t index) {
  const auto shorten = [index](auto& argument) {
    if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, at::TensorList>) {
      argument = argument.empty() ? argument : argument.slice(index, 1);
    }
  };
  Step::apply(step, [&](auto&... arguments) { (shorten(arguments), ...); });
  return step;
}

// The lengths of the lists, the counters and the scalars.
void check_arguments(
    const char* op,
    c10::ArrayRef<multi_tensor::List> streams,
    const multi_tensor::List& counters,
    const at::Tensor& lr,
    const OptionalTensor& found_inf,
    const OptionalTensor& grad_scale,
    const OptionalTensor& clip_coef);

template <class Step>
void check_arguments(const Step& step) {
  check_arguments(
      Step::name, step.streams(), step.counters(), step.lr, step.found_inf, step.grad_scale, step.clip_coef);
}

// The types, sizes and devices of the tensors.
template <class Step>
void check_lists(const Step& step, const multi_tensor::Names& names = {}) {
  multi_tensor::check_lists(Step::name, step.streams(), names);
}
template <class Step>
void check_counters(const Step& step, const multi_tensor::Names& names = {}) {
  multi_tensor::check_counters(Step::name, step.streams()[0], step.counters(), names);
}

// All that a kernel asks of a step.
template <class Step>
void check(const Step& step, const multi_tensor::Names& names = {}) {
  check_arguments(step);
  check_lists(step, names);
  check_counters(step, names);
}

template <class Step>
void raise_versions(const Step& step) {
  for (const multi_tensor::List& list : step.streams()) {
    if (list.written) {
      multi_tensor::raise_versions(list.tensors);
    }
  }
  multi_tensor::raise_versions(step.counters().tensors);
}

}  // namespace polycast::optim
