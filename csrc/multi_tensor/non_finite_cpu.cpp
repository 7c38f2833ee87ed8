// find_non_finite and unscale_ on the CPU: each one pass over all elements.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <tuple>

#include "multi_tensor/non_finite.h"
#include "multi_tensor/non_finite_flags.h"
#include "multi_tensor/op_arguments.h"
#include "multi_tensor/tensor_lists.h"
#include "multi_tensor/tensor_memory.h"
#include "op_library.h"

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
    if (any_non_finite(at[0], count)) {
      flags.add(item.index);
    }
  }
};

// Checks the gradients before they are multiplied.
struct Unscale {
  static constexpr std::array<bool, 1> written{true};

  NonFiniteFlags& flags;
  const size_t first;  // the index of the first item among all gradients
  const double inv_scale;

  template <class Math>
  [[gnu::always_inline]] void operator()(const std::array<Math*, 1>& at, int64_t count, const Item<1>& item) const {
    if (any_non_finite(at[0], count)) {
      flags.add(first + item.index);
    }
    const Math factor = static_cast<Math>(inv_scale);
    for (int64_t index = 0; index < count; ++index) {
      at[0][index] *= factor;
    }
  }
};

template <class Algorithm>
void run(const Algorithm& algorithm, const TensorLists<1>& items) {
  items.apply(algorithm, algorithm);
}

std::tuple<at::Tensor, at::Tensor> find_non_finite_cpu(at::TensorList tensors) {
  const Call call{OpArguments::of("find_non_finite"), {tensors}, {}};
  check_scalars(call);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  NonFiniteFlags flags(tensors.size());
  run(Find{flags}, TensorLists<1>({tensors}, Find::written, [&] { check(call); }));
  return {flags.found_inf(), flags.non_finite()};
}

at::Tensor unscale_cpu(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  multi_tensor::check({OpArguments::of("unscale_"), {grads}, {found_inf, inv_scale}});
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  NonFiniteFlags flags(grads.size());
  // Processes gradients that may share memory one after the other, as PyTorch does.
  const size_t step = multi_tensor::may_overlap(grads) ? 1 : std::max<size_t>(grads.size(), 1);
  for (size_t first = 0; first < grads.size(); first += step) {
    const TensorLists<1> items({grads.slice(first, step)}, Unscale::written, [] {});
    run(Unscale{flags, first, inv_scale.item<double>()}, items);
  }
  if (flags.any()) {
    found_inf.fill_(1);
  }
  multi_tensor::raise_versions(grads);
  multi_tensor::raise_versions(found_inf);
  return flags.non_finite();
}

}  // namespace

void register_non_finite(torch::Library& library) {
  library.impl("find_non_finite", TORCH_FN(find_non_finite_cpu));
  library.impl("unscale_", TORCH_FN(unscale_cpu));
}

}  // namespace polycast::scale
