// The arguments of any optimizer's step: lists of tensors, read once from the operator's arguments, and scalars.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "multi_tensor/checks.h"
#include "multi_tensor/tensor_memory.h"

namespace polycast::optim {

using OptionalTensor = std::optional<at::Tensor>;

// The lists of adam_step_ or sgd_step_.
struct StepLists {
  const char* op;
  // Those whose tensors have the sizes of the parameters: the parameters, the gradients, the averages.
  std::vector<multi_tensor::List> streams;
  // One number for each parameter; SGD has none.
  multi_tensor::List counters;

  at::TensorList params() const {
    return streams[0].tensors;
  }
};

// In the order of the schemas.
StepLists adam_lists(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList max_exp_avg_sqs,
    at::TensorList steps);
StepLists sgd_lists(at::TensorList params, at::TensorList grads, at::TensorList momentum_buffers);

struct StepScalars {
  at::Tensor lr;
  OptionalTensor found_inf;
  OptionalTensor grad_scale;
  OptionalTensor clip_coef;
};

// The lengths of the lists, and the scalars.
void check_arguments(const StepLists& lists, const StepScalars& scalars);
// All checks of a step.
void check(const StepLists& lists, const StepScalars& scalars, const multi_tensor::Names& names = {});

// Raises the versions of all that a step writes.
void raise_versions(const StepLists& lists);

}  // namespace polycast::optim
