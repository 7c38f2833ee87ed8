// A fused step on the CPU: one pass over all elements, by the algorithm of any optimizer.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>

#include "multi_tensor/op_arguments.h"
#include "multi_tensor/tensor_lists.h"

namespace polycast::optim {

using multi_tensor::OptionalTensor;

// The scalars of a step, in the order of the schema.
struct StepScalars {
  at::Tensor lr;
  OptionalTensor found_inf;
  OptionalTensor grad_scale;
  OptionalTensor clip_coef;
};

inline double value_or(const OptionalTensor& tensor, double otherwise) {
  return tensor.has_value() ? tensor->item<double>() : otherwise;
}

// Returns the factor by which a gradient is multiplied first.
inline double grad_factor(const StepScalars& scalars, bool maximize) {
  return (maximize ? -1.0 : 1.0) / value_or(scalars.grad_scale, 1) * value_or(scalars.clip_coef, 1);
}

// Checks all arguments, and unless the step is skipped calls run(items) with the items of the algorithm's streams,
// which are the first lists. found_inf is on the CPU, so a skipped step raises no version.
template <class Algorithm, class Run>
void fused_step(const char* op, std::vector<at::TensorList> lists, const StepScalars& scalars, const Run& run) {
  const multi_tensor::Call call{
      multi_tensor::OpArguments::of(op),
      std::move(lists),
      {scalars.lr, scalars.found_inf, scalars.grad_scale, scalars.clip_coef}};
  check_scalars(call);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::array<at::TensorList, Algorithm::streams> streams;
  std::copy_n(call.lists.begin(), streams.size(), streams.begin());
  const multi_tensor::TensorLists<Algorithm::streams> items(streams, Algorithm::written, [&] { check(call); });
  for (size_t list = 0; list < call.lists.size(); ++list) {
    if (call.expected.lists[list].use == multi_tensor::Use::counter) {
      check_list(call, list);
    }
  }
  if (value_or(scalars.found_inf, 0) == 0) {
    run(items);
    raise_versions(call);
  }
}

}  // namespace polycast::optim
