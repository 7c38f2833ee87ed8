// A step on the CPU: what goes around the pass over all elements, whatever the algorithm.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "kernels/items.h"
#include "kernels/steps.h"

namespace polycast::optim {

inline double value_or(const OptionalTensor& tensor, double otherwise) {
  return tensor.has_value() ? tensor->item<double>() : otherwise;
}

// What a gradient is multiplied by before anything else.
template <class Step>
double grad_factor(const Step& step) {
  return (step.maximize ? -1.0 : 1.0) / value_or(step.grad_scale, 1) * value_or(step.clip_coef, 1);
}

// Checks the tensors, and unless the step is skipped calls run(step, items) with the items of the algorithm's streams.
// Returns whether it has written: found_inf is on the host, so a step that is skipped raises no version either.
// Parameters that may share memory are stepped one after the other, as torch.optim does: where they do share it, the
// second sees what the first has become.
template <class Algorithm, class Step, class Run>
bool step_tensors(const Step& step, const Run& run) {
  std::array<at::TensorList, Algorithm::streams> streams;
  const auto lists = step.streams();
  std::transform(
      lists.begin(), lists.begin() + streams.size(), streams.begin(), [](const auto& list) { return list.tensors; });
  const multi_tensor::Items<Algorithm::streams> items(streams, Algorithm::written, [&] { check_lists(step); });
  check_counters(step);
  if (value_or(step.found_inf, 0) != 0) {
    return false;
  }
  if (step.params.size() > 1 && multi_tensor::may_overlap(step.params)) {
    for (size_t index = 0; index < step.params.size(); ++index) {
      step_tensors<Algorithm>(only(step, index), run);
    }
    return true;
  }
  run(step, items);
  return true;
}

template <class Algorithm, class Step, class Run>
void step_on_cpu(const Step& step, const Run& run) {
  check_arguments(step);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (step_tensors<Algorithm>(step, run)) {
    raise_versions(step);
  }
}

}  // namespace polycast::optim
