#include "optim/composition.h"

#include <ATen/ops/where.h>

#include "multi_tensor/items.h"

namespace polycast::optim {

namespace {

at::Tensor scalar_or_undefined(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() ? tensor->reshape({}) : at::Tensor();
}

}  // namespace

Composition::Composition(
    const at::Tensor& lr,
    bool maximize,
    const std::optional<at::Tensor>& found_inf,
    const std::optional<at::Tensor>& grad_scale,
    const std::optional<at::Tensor>& clip_coef)
    : lr_(lr.reshape({})),
      maximize_(maximize),
      skip_(scalar_or_undefined(found_inf)),
      grad_scale_(scalar_or_undefined(grad_scale)),
      clip_coef_(scalar_or_undefined(clip_coef)) {
  if (skip_.defined()) {
    skip_ = skip_.ne(0);
  }
}

at::ScalarType Composition::arithmetic_type(const at::Tensor& param) {
  return multi_tensor::real_type(param) == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor Composition::gradient(const at::Tensor& grad, at::ScalarType type) const {
  at::Tensor result = grad.to(type);
  if (grad_scale_.defined()) {
    result = result / grad_scale_.to(type);
  }
  if (clip_coef_.defined()) {
    result = result * clip_coef_.to(type);
  }
  return maximize_ ? -result : result;
}

void Composition::write(const at::Tensor& target, const at::Tensor& value) const {
  const at::Tensor converted = value.to(target.scalar_type());
  target.copy_(skip_.defined() ? at::where(skip_, target, converted) : converted);
}

}  // namespace polycast::optim
