// What every kernel of adam_step_ and sgd_step_ asks of its arguments, whatever the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace polycast::optim {

using OptionalTensor = std::optional<at::Tensor>;

struct AdamLists {
  at::TensorList params;
  at::TensorList grads;
  at::TensorList exp_avgs;
  at::TensorList exp_avg_sqs;
  at::TensorList max_exp_avg_sqs;  // empty without amsgrad
  at::TensorList steps;
};

struct SgdLists {
  at::TensorList params;
  at::TensorList grads;
  at::TensorList momentum_buffers;  // empty without momentum
  at::TensorList momentum_started;  // empty without dampening
};

struct StepScalars {
  const at::Tensor& lr;
  const OptionalTensor& found_inf;
  const OptionalTensor& grad_scale;
  const OptionalTensor& clip_coef;
};

// The lengths of the lists, the counters and the scalars.
void check_arguments(const AdamLists& lists, const StepScalars& scalars);
void check_arguments(const SgdLists& lists, const StepScalars& scalars);

// The types, sizes and devices of the tensors.
void check_tensors(const AdamLists& lists);
void check_tensors(const SgdLists& lists);

// That the tensors share no memory; a fingerprint of where they are spares looking again.
void check_memory(const AdamLists& lists, std::optional<size_t> fingerprint = std::nullopt);
void check_memory(const SgdLists& lists, std::optional<size_t> fingerprint = std::nullopt);

void raise_versions(const AdamLists& lists);
void raise_versions(const SgdLists& lists);

}  // namespace polycast::optim
