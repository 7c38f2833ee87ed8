// The operator `norm` on the CPU: one pass checks the elements and computes the norm. Sums are in float64, in which a
// sum of squares of float32 numbers cannot overflow.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "multi_tensor/non_finite.h"
#include "multi_tensor/tensor_lists.h"

namespace polycast::scale {

namespace {

using multi_tensor::Item;
using multi_tensor::TensorLists;

// The number of independent results of a block. The compiler can put these results into registers.
constexpr int64_t lanes = 16;

// Combines each element with one of the results.
template <class Result, class Math, class Combine>
[[gnu::always_inline]] inline void fold(
    const Math* values, int64_t count, Result (&results)[lanes], const Combine& combine) {
  const int64_t whole = count - count % lanes;
  for (int64_t index = 0; index < whole; index += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      results[lane] = combine(results[lane], values[index + lane]);
    }
  }
  for (int64_t index = whole; index < count; ++index) {
    results[index - whole] = combine(results[index - whole], values[index]);
  }
}

struct SumOfSquares {
  template <class Math>
  [[gnu::always_inline]] double operator()(const Math* values, int64_t count) const {
    double sums[lanes] = {};
    fold(values, count, sums, [](double sum, double value) __attribute__((always_inline)) {
      return sum + value * value;
    });
    return std::accumulate(sums, sums + lanes, 0.0);
  }

  static double combine(double left, double right) {
    return left + right;
  }
};

// A reduction to the largest absolute value. It ignores NaNs, because the caller checks for NaNs.
struct Largest {
  template <class Math>
  [[gnu::always_inline]] double operator()(const Math* values, int64_t count) const {
    Math largest[lanes] = {};
    fold(values, count, largest, [](Math largest, Math value) __attribute__((always_inline)) {
      return std::fabs(value) > largest ? std::fabs(value) : largest;
    });
    return *std::max_element(largest, largest + lanes);
  }

  static double combine(double left, double right) {
    return std::max(left, right);
  }
};

struct alignas(64) Partial {
  double value = 0;
  bool nan = false;
};

template <class Reduction>
struct Norm {
  static constexpr std::array<bool, 1> written{false};

  NonFiniteFlags& flags;
  std::vector<Partial>& partials;  // Each thread has its own `Partial`.

  template <class Math>
  [[gnu::always_inline]] void operator()(const std::array<Math*, 1>& at, int64_t count, const Item<1>& item) const {
    Partial& partial = partials[at::get_thread_num()];
    if (flags.check(at[0], count, item.index)) {
      partial.nan = partial.nan || std::any_of(at[0], at[0] + count, [](Math value) { return value != value; });
    }
    partial.value = Reduction::combine(partial.value, Reduction()(at[0], count));
  }
};

template <class Reduction>
double reduce(NonFiniteFlags& flags, const TensorLists<1>& items) {
  std::vector<Partial> partials(std::max(at::get_num_threads(), at::get_thread_num() + 1));
  items.apply(Norm<Reduction>{flags, partials});
  double total = 0;
  for (const Partial& partial : partials) {
    if (partial.nan) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    total = Reduction::combine(total, partial.value);
  }
  return total;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_cpu(
    at::TensorList tensors, bool infinity, const std::optional<at::Tensor>& grad_scale) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const TensorLists<1> items({multi_tensor::OpArguments::of("norm"), {tensors}, {grad_scale}});
  NonFiniteFlags flags(tensors.size());
  const double divisor = grad_scale.has_value() ? grad_scale->item<double>() : 1;
  const double norm =
      (infinity ? reduce<Largest>(flags, items) : std::sqrt(reduce<SumOfSquares>(flags, items))) / divisor;
  // A float32 norm that overflows becomes infinite, even if the gradients are finite.
  const at::Tensor result = items.has_double() ? at::scalar_tensor(norm, at::kDouble)
                                               : at::scalar_tensor(static_cast<float>(norm), at::kFloat);
  return {result, flags.found_inf(), flags.non_finite()};
}

TORCH_LIBRARY_IMPL(polycast, CPU, library) {
  library.impl("norm", TORCH_FN(norm_cpu));
}

}  // namespace

}  // namespace polycast::scale
