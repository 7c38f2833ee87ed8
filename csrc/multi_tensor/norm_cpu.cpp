// norm on the CPU: the check and the norm in one pass. Sums are in float64, in which a sum of squares of float32
// numbers cannot overflow, so that the norm of finite gradients is finite.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
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
using multi_tensor::TensorLists;

// Independent sums, so that the compiler can put them into one register.
constexpr int64_t lanes = 16;

template <class Math, class Term>
[[gnu::always_inline]] inline double sum(const Math* values, int64_t count, const Term& term) {
  double sums[lanes] = {};
  const int64_t whole = count - count % lanes;
  for (int64_t index = 0; index < whole; index += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      sums[lane] += term(static_cast<double>(values[index + lane]));
    }
  }
  for (int64_t index = whole; index < count; ++index) {
    sums[index - whole] += term(static_cast<double>(values[index]));
  }
  double total = 0;
  for (const double lane : sums) {
    total += lane;
  }
  return total;
}

struct AbsoluteSum {
  template <class Math>
  [[gnu::always_inline]] double operator()(const Math* values, int64_t count) const {
    return sum(values, count, [](double value) __attribute__((always_inline)) { return std::fabs(value); });
  }
};

struct SquareSum {
  template <class Math>
  [[gnu::always_inline]] double operator()(const Math* values, int64_t count) const {
    return sum(values, count, [](double value) __attribute__((always_inline)) { return value * value; });
  }
};

struct PowerSum {
  double power;
  double divisor;

  template <class Math>
  [[gnu::always_inline]] double operator()(const Math* values, int64_t count) const {
    return sum(values, count, [this](double value) __attribute__((always_inline)) {
      return std::pow(std::fabs(value) / divisor, power);
    });
  }
};

// Ignores NaNs, because the caller checks for them.
struct Largest {
  template <class Math>
  [[gnu::always_inline]] double operator()(const Math* values, int64_t count) const {
    Math largest[lanes] = {};
    const int64_t whole = count - count % lanes;
    for (int64_t index = 0; index < whole; index += lanes) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const Math value = std::fabs(values[index + lane]);
        largest[lane] = value > largest[lane] ? value : largest[lane];
      }
    }
    for (int64_t index = whole; index < count; ++index) {
      largest[0] = std::max(largest[0], static_cast<Math>(std::fabs(values[index])));
    }
    return *std::max_element(largest, largest + lanes);
  }
};

struct alignas(64) Partial {
  double value = 0;
  bool nan = false;
};

template <class Reduction>
struct Norm {
  static constexpr std::array<bool, 1> written{false};
  static constexpr bool is_largest = std::is_same_v<Reduction, Largest>;

  const Reduction reduction;
  NonFiniteFlags& flags;
  std::vector<Partial>& partials;  // one for each thread

  template <class Math>
  [[gnu::always_inline]] void operator()(const std::array<Math*, 1>& at, int64_t count, const Item<1>& item) const {
    Partial& partial = partials[at::get_thread_num()];
    if (any_non_finite(at[0], count)) {
      flags.add(item.index);
      partial.nan = partial.nan || std::any_of(at[0], at[0] + count, [](Math value) { return value != value; });
    }
    const double value = reduction(at[0], count);
    partial.value = is_largest ? std::max(partial.value, value) : partial.value + value;
  }
};

template <class Reduction>
double reduce(const Reduction& reduction, NonFiniteFlags& flags, const Call& call) {
  using Algorithm = Norm<Reduction>;
  std::vector<Partial> partials(std::max(at::get_num_threads(), at::get_thread_num() + 1));
  const Algorithm algorithm{reduction, flags, partials};
  const TensorLists<1> items(std::array<at::TensorList, 1>{call.lists[0]}, Algorithm::written, [&] { check(call); });
  items.apply(algorithm, algorithm);
  double total = 0;
  for (const Partial& partial : partials) {
    if (partial.nan) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    total = Algorithm::is_largest ? std::max(total, partial.value) : total + partial.value;
  }
  return total;
}

double norm_of(double norm_type, NonFiniteFlags& flags, const Call& call) {
  if (norm_type == 2) {
    return std::sqrt(reduce(SquareSum{}, flags, call));
  }
  if (norm_type == 1) {
    return reduce(AbsoluteSum{}, flags, call);
  }
  const double largest = reduce(Largest{}, flags, call);
  if (std::isinf(norm_type) || !(largest > 0 && std::isfinite(largest))) {
    return largest;
  }
  // Powers of numbers of at most 1 do not overflow, and one of them is 1.
  return largest * std::pow(reduce(PowerSum{norm_type, largest}, flags, call), 1 / norm_type);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_cpu(at::TensorList tensors, double norm_type) {
  const Call call{multi_tensor::OpArguments::of("norm"), {tensors}, {}};
  check_scalars(call);
  multi_tensor::check_norm_type(norm_type);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  NonFiniteFlags flags(tensors.size());
  const double norm = norm_of(norm_type, flags, call);
  const auto is_double = [](const at::Tensor& tensor) { return tensor.scalar_type() == at::kDouble; };
  const bool wide = std::any_of(tensors.begin(), tensors.end(), is_double);
  // A norm that overflows float32 is infinite, although the gradients are finite.
  const at::Tensor result =
      wide ? at::scalar_tensor(norm, at::kDouble) : at::scalar_tensor(static_cast<float>(norm), at::kFloat);
  return {result, flags.found_inf(), flags.non_finite()};
}

}  // namespace

void register_norm(torch::Library& library) {
  library.impl("norm", TORCH_FN(norm_cpu));
}

}  // namespace polycast::scale
