// A step on the CPU, around the pass of any algorithm over all elements.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>

#include "kernels/items.h"
#include "kernels/steps.h"

namespace polycast::optim {

inline double value_or(const OptionalTensor& tensor, double otherwise) {
  return tensor.has_value() ? tensor->item<double>() : otherwise;
}

// What a gradient is multiplied by before anything else.
inline double grad_factor(const StepScalars& scalars, bool maximize) {
  return (maximize ? -1.0 : 1.0) / value_or(scalars.grad_scale, 1) * value_or(scalars.clip_coef, 1);
}

// Checks the tensors, and unless the step is skipped calls run(items, counters) with the items of the algorithm's
// streams. Returns whether it has written. found_inf is on the host, so a skipped step raises no version either.
// Parameters that may share memory are stepped one after the other, as in torch.optim: where they do share it, the
// second step sees the result of the first.
template <class Algorithm, class Run>
bool step_tensors(const StepLists& lists, const StepScalars& scalars, const Run& run) {
  std::array<at::TensorList, Algorithm::streams> streams;
  std::transform(lists.streams.begin(), lists.streams.begin() + streams.size(), streams.begin(), [](const auto& list) {
    return list.tensors;
  });
  const auto check = [&] { multi_tensor::check_lists(lists.op, lists.streams); };
  const multi_tensor::Items<Algorithm::streams> items(streams, Algorithm::written, check);
  multi_tensor::check_counters(lists.op, lists.streams[0], lists.counters);
  if (value_or(scalars.found_inf, 0) != 0) {
    return false;
  }
  if (lists.params().size() > 1 && multi_tensor::may_overlap(lists.params())) {
    for (size_t index = 0; index < lists.params().size(); ++index) {
      step_tensors<Algorithm>(lists.only(index), scalars, run);
    }
    return true;
  }
  run(items, lists.counters.tensors);
  return true;
}

template <class Algorithm, class Run>
void step_on_cpu(const StepLists& lists, const StepScalars& scalars, const Run& run) {
  check_arguments(lists, scalars);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (step_tensors<Algorithm>(lists, scalars, run)) {
    raise_versions(lists);
  }
}

}  // namespace polycast::optim
