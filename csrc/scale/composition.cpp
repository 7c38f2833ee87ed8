// find_non_finite, norm, unscale_ and update_scale_ by torch's operators over lists, for every device without kernels
// of its own, for meta and for fake tensors: a number of calls that does not grow with the tensors. Nothing is read
// back.
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
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

#include "multi_tensor/items.h"
#include "multi_tensor/lists.h"
#include "multi_tensor/torch_kernels.h"
#include "scale/checks.h"

namespace polycast::scale {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// One bool: whether a tensor holds a NaN or an infinity.
at::Tensor holds_non_finite(const at::Tensor& tensor) {
  return tensor.isfinite().all().logical_not();
}

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

std::tuple<at::Tensor, at::Tensor> findings_of(const at::Tensor& norms) {
  const at::Tensor non_finite = (norms - norms).ne(0);  // NaN, unless a number is finite
  return {non_finite.any().to(at::kFloat), non_finite};
}

std::tuple<at::Tensor, at::Tensor> find_non_finite_composition(at::TensorList tensors) {
  check_not_empty("find_non_finite", tensors);
  check_tensors("find_non_finite", tensors);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return findings_of(norms_of(multi_tensor::as_real(tensors), infinity, sum_type(tensors)));
}

// Divides by the largest magnitude first, so that no sum of powers overflows that a norm does not. Infinite and NaN
// magnitudes stay as they are.
std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_by_tensors(at::TensorList tensors, double norm_type) {
  const at::ScalarType type = sum_type(tensors);
  std::vector<at::Tensor> magnitudes;
  std::vector<at::Tensor> found;
  std::vector<at::Tensor> largest{at::zeros({}, tensors[0].options().dtype(type))};
  for (const at::Tensor& tensor : tensors) {
    found.push_back(holds_non_finite(tensor));
    magnitudes.push_back(tensor.abs().to(type));
    if (tensor.sym_numel() != 0) {
      largest.push_back(magnitudes.back().amax());
    }
  }
  const at::Tensor non_finite = at::stack(found);
  at::Tensor norm = at::stack(largest).amax();
  if (!std::isinf(norm_type)) {
    const at::Tensor divisor = at::where((norm > 0).logical_and(norm.isfinite()), norm, at::ones_like(norm));
    std::vector<at::Tensor> norms;
    for (const at::Tensor& magnitude : magnitudes) {
      norms.push_back(at::linalg_vector_norm(magnitude / divisor, norm_type));
    }
    norm = at::linalg_vector_norm(at::stack(norms), norm_type) * divisor;
  }
  return {norm, non_finite.any().to(at::kFloat), non_finite};
}

// In float64 no sum of squares of narrower numbers overflows.
std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_composition(at::TensorList tensors, double norm_type) {
  check_not_empty("norm", tensors);
  check_norm_type(norm_type);
  check_tensors("norm", tensors);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (norm_type != 2 || sum_type(tensors) == at::kDouble || !multi_tensor::has_torch_kernels(tensors[0])) {
    return norm_by_tensors(tensors, norm_type);
  }
  const at::Tensor norms = norms_of(multi_tensor::as_real(tensors), norm_type, at::kDouble);
  const auto [found_inf, non_finite] = findings_of(norms);
  return {at::linalg_vector_norm(norms, norm_type).to(at::kFloat), found_inf, non_finite};
}

at::Tensor unscale_composition(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  check_unscale(grads, found_inf, inv_scale);
  if (grads.empty()) {
    return at::zeros({0}, found_inf.options().dtype(at::kBool));
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const std::vector<at::Tensor> tensors = multi_tensor::as_real(grads);
  const auto [any, non_finite] = findings_of(norms_of(tensors, infinity, sum_type(grads)));
  found_inf.copy_(at::where(any.ne(0), at::ones_like(found_inf), found_inf));
  if (multi_tensor::has_torch_kernels(grads[0]) && !multi_tensor::may_overlap(grads)) {
    at::Tensor unused = at::zeros_like(any);
    at::_amp_foreach_non_finite_check_and_unscale_(tensors, unused, inv_scale.reshape({}).to(at::kFloat));
  } else {
    for (const at::Tensor& grad : grads) {
      const at::ScalarType type = grad.is_complex() ? grad.scalar_type() : sum_type(grad);
      grad.copy_(grad.to(type) * inv_scale.reshape({}).to(c10::toRealValueType(type)));
    }
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
