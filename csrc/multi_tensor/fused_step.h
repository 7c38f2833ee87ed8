// A fused step on the CPU: one pass over all elements, by the algorithm of any optimizer.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include <array>
#include <type_traits>

#include "multi_tensor/op_arguments.h"
#include "multi_tensor/tensor_lists.h"

namespace polycast::optim {

using multi_tensor::OptionalTensor;

// The tensors among the scalars of a step, in the order of the schema.
struct StepScalars {
  OptionalTensor lr;
  OptionalTensor found_inf;
  OptionalTensor grad_scale;
  OptionalTensor clip_coef;
};

inline double value_or(const OptionalTensor& tensor, double otherwise) {
  return tensor.has_value() ? tensor->item<double>() : otherwise;
}

// Returns the factor that unscales and clips a gradient, and negates it with `maximize`.
inline double grad_factor(const StepScalars& scalars, bool maximize) {
  return (maximize ? -1.0 : 1.0) / value_or(scalars.grad_scale, 1) * value_or(scalars.clip_coef, 1);
}

// Calls `use` with a `std::true_type` or `std::false_type` for each flag: one algorithm is compiled per combination.
template <class Use>
void dispatch_bools(const Use& use) {
  use();
}

template <class Use, class... Flags>
void dispatch_bools(const Use& use, bool first, Flags... rest) {
  const auto with_first = [&](auto constant) {
    dispatch_bools([&](auto... constants) { use(constant, constants...); }, rest...);
  };
  first ? with_first(std::true_type{}) : with_first(std::false_type{});
}

// Checks all arguments. Unless the step is skipped, calls `run(items)` with the items of the first lists, one list for
// each stream of the algorithm. `found_inf` is on the CPU, so a skipped step increments no version.
template <class Algorithm, class Run>
void fused_step(const char* op, std::vector<at::TensorList> lists, const StepScalars& scalars, const Run& run) {
  const multi_tensor::Call call{
      multi_tensor::OpArguments::of(op),
      std::move(lists),
      {scalars.lr, scalars.found_inf, scalars.grad_scale, scalars.clip_coef}};
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const multi_tensor::TensorLists<Algorithm::streams> items(call);
  if (value_or(scalars.found_inf, 0) == 0) {
    run(items);
    raise_versions(call);
  }
}

}  // namespace polycast::optim
