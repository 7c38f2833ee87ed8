// A step on the CPU, around the pass of any algorithm over all elements.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>

#include "multi_tensor/optimizer_args.h"
#include "multi_tensor/tensor_lists.h"

namespace polycast::optim {

inline double value_or(const OptionalTensor& tensor, double otherwise) {
  return tensor.has_value() ? tensor->item<double>() : otherwise;
}

// What a gradient is multiplied by before anything else.
inline double grad_factor(const StepScalars& scalars, bool maximize) {
  return (maximize ? -1.0 : 1.0) / value_or(scalars.grad_scale, 1) * value_or(scalars.clip_coef, 1);
}

// Checks all arguments, and unless the step is skipped calls run(items, counters) with the items of the algorithm's
// streams. found_inf is on the host, so a skipped step raises no version either.
template <class Algorithm, class Run>
void fused_step(const StepLists& lists, const StepScalars& scalars, const Run& run) {
  check_arguments(lists, scalars);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::array<at::TensorList, Algorithm::streams> streams;
  std::transform(lists.streams.begin(), lists.streams.begin() + streams.size(), streams.begin(), [](const auto& list) {
    return list.tensors;
  });
  const auto check = [&] { multi_tensor::check_lists(lists.op, lists.streams); };
  const multi_tensor::TensorLists<Algorithm::streams> items(streams, Algorithm::written, check);
  multi_tensor::check_counters(lists.op, lists.streams[0], lists.counters);
  if (value_or(scalars.found_inf, 0) == 0) {
    run(items, lists.counters.tensors);
    raise_versions(lists);
  }
}

}  // namespace polycast::optim
