// check and unscale_ on the CPU: each one pass over all elements.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <tuple>

#include "multi_tensor/items.h"
#include "multi_tensor/lists.h"
#include "scale/checks.h"
#include "scale/findings.h"
#include "scale/non_finite.h"

namespace polycast::scale {

namespace {

using multi_tensor::Item;
using multi_tensor::Items;

struct Check {
  static constexpr std::array<bool, 1> written{false};

  Findings& findings;

  template <class Math>
  [[gnu::always_inline]] void operator()(const std::array<Math*, 1>& at, int64_t count, const Item<1>& item) const {
    if (any_non_finite(at[0], count)) {
      findings.add(item.index);
    }
  }
};

// Looks at the gradients as they come, before they are multiplied.
struct Unscale {
  static constexpr std::array<bool, 1> written{true};

  Findings& findings;
  const double inv_scale;

  template <class Math>
  [[gnu::always_inline]] void operator()(const std::array<Math*, 1>& at, int64_t count, const Item<1>& item) const {
    if (any_non_finite(at[0], count)) {
      findings.add(item.index);
    }
    const Math factor = static_cast<Math>(inv_scale);
    for (int64_t index = 0; index < count; ++index) {
      at[0][index] *= factor;
    }
  }
};

template <class Algorithm, class CheckArguments>
void run(const Algorithm& algorithm, at::TensorList tensors, const CheckArguments& check) {
  const Items<1> items(std::array<at::TensorList, 1>{tensors}, Algorithm::written, check);
  multi_tensor::walk<float>(algorithm, items.in_float);
  multi_tensor::walk<double>(algorithm, items.in_double);
  items.write_back();
}

std::tuple<at::Tensor, at::Tensor> check_cpu(at::TensorList tensors) {
  check_length("check", tensors);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Findings findings(tensors.size());
  run(Check{findings}, tensors, [&] { check_tensors("check", tensors); });
  return {findings.found_inf(), findings.non_finite()};
}

at::Tensor unscale_cpu(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  check_unscale(grads, found_inf, inv_scale);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Findings findings(grads.size());
  run(Unscale{findings, inv_scale.item<double>()}, grads, [] {});
  if (findings.any()) {
    found_inf.fill_(1);
  }
  multi_tensor::raise_versions(grads);
  multi_tensor::raise_versions(found_inf);
  return findings.non_finite();
}

}  // namespace

}  // namespace polycast::scale

TORCH_LIBRARY_IMPL(polycast, CPU, library) {
  library.impl("check", TORCH_FN(polycast::scale::check_cpu));
  library.impl("unscale_", TORCH_FN(polycast::scale::unscale_cpu));
}
