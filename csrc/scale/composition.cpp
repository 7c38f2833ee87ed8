// find_non_finite, norm, unscale_ and update_scale_ as compositions of ATen ops, for every device without kernels of
// its own, for meta and for fake tensors. Nothing is read back.
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "multi_tensor/items.h"
#include "multi_tensor/lists.h"
#include "scale/checks.h"

namespace polycast::scale {

namespace {

// One bool: whether a tensor holds a NaN or an infinity.
at::Tensor holds_non_finite(const at::Tensor& tensor) {
  return tensor.isfinite().all().logical_not();
}

std::tuple<at::Tensor, at::Tensor> find_non_finite_composition(at::TensorList tensors) {
  check_not_empty("find_non_finite", tensors);
  check_tensors("find_non_finite", tensors);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<at::Tensor> found;
  for (const at::Tensor& tensor : tensors) {
    found.push_back(holds_non_finite(tensor));
  }
  const at::Tensor non_finite = at::stack(found);
  return {non_finite.any().to(at::kFloat), non_finite};
}

at::ScalarType sum_type(at::TensorList tensors) {
  const auto is_double = [](const at::Tensor& tensor) { return multi_tensor::real_type(tensor) == at::kDouble; };
  return std::any_of(tensors.begin(), tensors.end(), is_double) ? at::kDouble : at::kFloat;
}

// Divides by the largest magnitude first, so that no sum of powers overflows that a norm does not. Infinite and NaN
// magnitudes stay as they are.
std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_composition(at::TensorList tensors, double norm_type) {
  check_not_empty("norm", tensors);
  check_norm_type(norm_type);
  check_tensors("norm", tensors);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
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

at::Tensor unscale_composition(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  check_unscale(grads, found_inf, inv_scale);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<at::Tensor> found;
  for (const at::Tensor& grad : grads) {
    found.push_back(holds_non_finite(grad));
    const at::ScalarType type = grad.is_complex() ? grad.scalar_type() : sum_type(grad);
    grad.copy_(grad.to(type) * inv_scale.reshape({}).to(c10::toRealValueType(type)));
  }
  const at::Tensor non_finite = found.empty() ? at::zeros({0}, found_inf.options().dtype(at::kBool)) : at::stack(found);
  found_inf.copy_(at::where(non_finite.any(), at::ones_like(found_inf), found_inf));
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
  const at::Tensor skipped = found_inf.reshape(scale.sizes()).ne(0);
  const at::Tensor count = growth_tracker + 1;
  const at::Tensor is_due = count.eq(growth_interval);
  const at::Tensor grown = (scale * growth_factor).clamp_max(max_scale);
  const at::Tensor grows = is_due.reshape(scale.sizes()).logical_and(grown.isfinite());
  const at::Tensor backed_off = (scale * backoff_factor).clamp_min(min_scale);
  scale.copy_(at::where(skipped, backed_off, at::where(grows, grown, scale)));
  const at::Tensor restarts = skipped.reshape(count.sizes()).logical_or(is_due);
  growth_tracker.copy_(at::where(restarts, at::zeros_like(count), count));
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
