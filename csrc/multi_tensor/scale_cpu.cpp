// The operators of a scaler on the CPU, except for `norm`: `find_non_finite`, `unscale_` and `update_scale_`.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <cmath>
#include <tuple>

#include "multi_tensor/non_finite.h"
#include "multi_tensor/tensor_lists.h"

namespace polycast::scale {

namespace {

using multi_tensor::Call;
using multi_tensor::Item;
using multi_tensor::OpArguments;
using multi_tensor::TensorLists;

struct Find {
  static constexpr std::array<bool, 1> written{false};

  NonFiniteFlags& flags;

  template <class Math>
  [[gnu::always_inline]] void operator()(const std::array<Math*, 1>& at, int64_t count, const Item<1>& item) const {
    flags.check(at[0], count, item.index);
  }
};

// An algorithm that checks gradients and then multiplies them by `inv_scale`.
struct Unscale {
  static constexpr std::array<bool, 1> written{true};

  NonFiniteFlags& flags;
  const size_t first;  // The index of the first item among all gradients.
  const double inv_scale;

  template <class Math>
  [[gnu::always_inline]] void operator()(const std::array<Math*, 1>& at, int64_t count, const Item<1>& item) const {
    flags.check(at[0], count, first + item.index);
    const Math factor = static_cast<Math>(inv_scale);
    for (int64_t index = 0; index < count; ++index) {
      at[0][index] *= factor;
    }
  }
};

std::tuple<at::Tensor, at::Tensor> find_non_finite_cpu(at::TensorList tensors) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  NonFiniteFlags flags(tensors.size());
  TensorLists<1>({OpArguments::of("find_non_finite"), {tensors}, {}}).apply(Find{flags});
  return {flags.found_inf(), flags.non_finite()};
}

at::Tensor unscale_cpu(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  const Call call{OpArguments::of("unscale_"), {grads}, {found_inf, inv_scale}};
  multi_tensor::check(call);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  NonFiniteFlags flags(grads.size());
  // If gradients may share memory, all gradients are processed one after the other. PyTorch does the same.
  const size_t step = multi_tensor::may_overlap(grads) ? 1 : std::max<size_t>(grads.size(), 1);
  for (size_t first = 0; first < grads.size(); first += step) {
    const TensorLists<1> items({call.expected, {grads.slice(first, step)}, call.scalars});
    items.apply(Unscale{flags, first, inv_scale.item<double>()});
  }
  if (flags.any()) {
    found_inf.fill_(1);
  }
  multi_tensor::raise_versions(grads);
  multi_tensor::raise_versions(found_inf);
  return flags.non_finite();
}

void update_scale_cpu(
    at::Tensor& scale,
    at::Tensor& growth_tracker,
    const at::Tensor& found_inf,
    double growth_factor,
    double backoff_factor,
    int64_t growth_interval,
    double min_scale,
    double max_scale) {
  multi_tensor::check({OpArguments::of("update_scale_"), {}, {scale, growth_tracker, found_inf}});
  float& value = *scale.mutable_data_ptr<float>();
  int32_t& tracker = *growth_tracker.mutable_data_ptr<int32_t>();
  if (*found_inf.const_data_ptr<float>() != 0) {
    value = std::max(static_cast<float>(value * backoff_factor), static_cast<float>(min_scale));
    tracker = 0;
  } else if (++tracker == growth_interval) {
    const float grown = std::min(static_cast<float>(value * growth_factor), static_cast<float>(max_scale));
    value = std::isfinite(grown) ? grown : value;
    tracker = 0;
  }
  multi_tensor::raise_versions({scale, growth_tracker});
}

TORCH_LIBRARY_IMPL(polycast, CPU, library) {
  library.impl("find_non_finite", TORCH_FN(find_non_finite_cpu));
  library.impl("unscale_", TORCH_FN(unscale_cpu));
  library.impl("update_scale_", TORCH_FN(update_scale_cpu));
}

}  // namespace

}  // namespace polycast::scale
