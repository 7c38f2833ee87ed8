// find_non_finite, norm, unscale_ and update_scale_ by torch's operators over lists, for every device without kernels
// of its own, for meta and for fake tensors: a number of calls that does not grow with the tensors. Nothing is read
// back.
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "kernels/lists.h"
#include "kernels/parts.h"
#include "kernels/scale_checks.h"
#include "kernels/torch_kernels.h"

namespace polycast::scale {

namespace {

using multi_tensor::Part;

constexpr double infinity = std::numeric_limits<double>::infinity();

at::ScalarType sum_type(at::TensorList tensors) {
  const auto is_double = [](const at::Tensor& tensor) { return multi_tensor::real_type(tensor) == at::kDouble; };
  return std::any_of(tensors.begin(), tensors.end(), is_double) ? at::kDouble : at::kFloat;
}

// The norm of each tensor, as one vector: NaN or infinite where an element is. torch's kernels take lists of one type.
at::Tensor norms_of(at::TensorList tensors, double norm_type, at::ScalarType type) {
  std::vector<at::Tensor> norms(tensors.size());
  std::vector<bool> done(tensors.size());
  for (size_t begin = 0; begin < tensors.size(); ++begin) {
    std::vector<at::Tensor> list;
    std::vector<size_t> places;
    for (size_t index = begin; index < tensors.size() && !done[begin]; ++index) {
      if (tensors[index].scalar_type() == tensors[begin].scalar_type() && tensors[index].sym_numel() != 0) {
        list.push_back(tensors[index]);
        places.push_back(index);
      }
    }
    const auto found = list.empty() ? list : at::_foreach_norm(list, norm_type, type);
    for (size_t index = 0; index < places.size(); ++index) {
      norms[places[index]] = found[index];
      done[places[index]] = true;
    }
    if (!norms[begin].defined()) {  // it has no elements
      norms[begin] = at::zeros({}, tensors[begin].options().dtype(type));
      done[begin] = true;
    }
  }
  return at::stack(norms);
}

// Whether any norm is not finite, and whether each is, as 0 or 1.
std::tuple<at::Tensor, at::Tensor> findings_of(const at::Tensor& norms) {
  at::Tensor non_finite = at::empty_like(norms, at::kFloat);
  at::ne_out(non_finite, norms - norms, 0);  // NaN, unless a number is finite
  return {non_finite.amax(), non_finite};
}

std::tuple<at::Tensor, at::Tensor> find_non_finite_composition(at::TensorList tensors) {
  check_not_empty("find_non_finite", tensors);
  check_tensors("find_non_finite", tensors);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return findings_of(norms_of(multi_tensor::as_real(tensors), infinity, sum_type(tensors)));
}

// All in the type of the arithmetic, joined to parts.
std::vector<Part> parts_of(at::TensorList tensors, at::ScalarType type) {
  std::vector<Part> parts;
  for (size_t place = 0; place < tensors.size(); ++place) {
    multi_tensor::add_place(parts, place, tensors[place], type, /*is_joined=*/true, multi_tensor::joined_limit);
  }
  return parts;
}

// Divides by the largest magnitude first, so that no sum of powers overflows that a norm does not. Infinite and NaN
// magnitudes stay as they are.
at::Tensor norm_of_parts(at::TensorList tensors, const at::Tensor& largest, double norm_type) {
  const at::Tensor divisor = at::where((largest > 0).logical_and(largest.isfinite()), largest, at::ones_like(largest));
  std::vector<at::Tensor> norms;
  for (const Part& part : parts_of(tensors, largest.scalar_type())) {
    const std::vector<at::Tensor> list = part.of(tensors);
    const at::Tensor values = list.size() == 1 ? list[0] : multi_tensor::join_like(list, list, part.type);
    for (const at::Tensor& piece : multi_tensor::pieces_of(values)) {
      norms.push_back(at::linalg_vector_norm(piece.to(part.type) / divisor, norm_type));
    }
  }
  return at::linalg_vector_norm(at::stack(norms), norm_type) * divisor;
}

// Magnitudes of complex tensors; real ones as they are.
std::vector<at::Tensor> magnitudes_of(at::TensorList tensors) {
  std::vector<at::Tensor> magnitudes;
  for (const at::Tensor& tensor : tensors) {
    magnitudes.push_back(tensor.is_complex() ? tensor.abs() : tensor);
  }
  return magnitudes;
}

// In float64 no sum of squares of narrower numbers overflows.
std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_composition(at::TensorList tensors, double norm_type) {
  check_not_empty("norm", tensors);
  check_norm_type(norm_type);
  check_tensors("norm", tensors);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::ScalarType type = sum_type(tensors);
  if (norm_type == 2 && type != at::kDouble && multi_tensor::has_torch_kernels(tensors[0])) {
    const at::Tensor norms = norms_of(multi_tensor::as_real(tensors), norm_type, at::kDouble);
    const auto [found_inf, non_finite] = findings_of(norms);
    return {at::linalg_vector_norm(norms, norm_type).to(at::kFloat), found_inf, non_finite};
  }
  const std::vector<at::Tensor> magnitudes = magnitudes_of(tensors);
  const at::Tensor maxima = norms_of(magnitudes, infinity, type);
  const auto [found_inf, non_finite] = findings_of(maxima);
  const at::Tensor largest = maxima.amax();
  return {std::isinf(norm_type) ? largest : norm_of_parts(magnitudes, largest, norm_type), found_inf, non_finite};
}

// Multiplies in float32 or wider.
void multiply(at::TensorList grads, const at::Tensor& factor) {
  const bool one_by_one = multi_tensor::any_overlap(multi_tensor::List{"grads", grads, true});
  std::vector<Part> parts;
  for (size_t place = 0; place < grads.size(); ++place) {
    const bool is_narrow = grads[place].itemsize() == 2;
    const int64_t limit = one_by_one ? -1 : is_narrow ? multi_tensor::joined_limit : multi_tensor::no_limit;
    multi_tensor::add_place(parts, place, grads[place], sum_type(grads[place]), is_narrow, limit);
  }
  for (const Part& part : parts) {
    const std::vector<at::Tensor> list = part.of(grads);
    if (part.is_joined && list.size() == 1) {
      for (const at::Tensor& piece : multi_tensor::pieces_of(list[0])) {
        piece.copy_(piece.to(part.type) * factor.to(part.type));
      }
    } else if (part.is_joined) {
      const at::Tensor products = multi_tensor::join_like(list, list, part.type) * factor.to(part.type);
      at::_foreach_copy_(list, multi_tensor::split_like(list, products));
    } else {
      at::_foreach_mul_(list, factor.to(part.type));
    }
  }
}

at::Tensor unscale_composition(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  check_unscale(grads, found_inf, inv_scale);
  if (grads.empty()) {
    return at::zeros({0}, found_inf.options());
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const std::vector<at::Tensor> tensors = multi_tensor::as_real(grads);
  const auto [any, non_finite] = findings_of(norms_of(tensors, infinity, sum_type(grads)));
  // Torch's kernel takes a float32 factor, which clips gradients of float64 to another value.
  if (multi_tensor::has_torch_kernels(grads[0]) && inv_scale.scalar_type() != at::kDouble &&
      !multi_tensor::any_overlap(multi_tensor::List{"grads", grads, true})) {
    at::_amp_foreach_non_finite_check_and_unscale_(tensors, found_inf, inv_scale.reshape({}).to(at::kFloat));
  } else {
    found_inf.copy_(at::maximum(found_inf, any));
    multiply(tensors, inv_scale.reshape({}));
  }
  multi_tensor::raise_versions(grads);
  multi_tensor::raise_versions(found_inf);
  return non_finite;
}

void update_scale_composition(
    at::Tensor& scale,
    at::Tensor& growth_tracker,
    const at::Tensor& found_inf,
    double growth_factor,
    double backoff_factor,
    int64_t growth_interval,
    double min_scale,
    double max_scale) {
  check_update(scale, growth_tracker, found_inf);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (multi_tensor::has_torch_kernels(scale)) {
    at::_amp_update_scale_(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval);
    scale.clamp_(min_scale, max_scale);
  } else {
    const at::Tensor skipped = found_inf.reshape(scale.sizes()).ne(0);
    const at::Tensor count = growth_tracker + 1;
    const at::Tensor is_due = count.eq(growth_interval);
    const at::Tensor grown = (scale * growth_factor).clamp_max(max_scale);
    const at::Tensor grows = is_due.reshape(scale.sizes()).logical_and(grown.isfinite());
    const at::Tensor backed_off = (scale * backoff_factor).clamp_min(min_scale);
    scale.copy_(at::where(skipped, backed_off, at::where(grows, grown, scale)));
    const at::Tensor restarts = skipped.reshape(count.sizes()).logical_or(is_due);
    growth_tracker.copy_(at::where(restarts, at::zeros_like(count), count));
  }
  multi_tensor::raise_versions({scale, growth_tracker});
}

}  // namespace

}  // namespace polycast::scale

TORCH_LIBRARY_IMPL(polycast, CompositeExplicitAutograd, library) {
  library.impl("find_non_finite", TORCH_FN(polycast::scale::find_non_finite_composition));
  library.impl("norm", TORCH_FN(polycast::scale::norm_composition));
  library.impl("unscale_", TORCH_FN(polycast::scale::unscale_composition));
  library.impl("update_scale_", TORCH_FN(polycast::scale::update_scale_composition));
}
