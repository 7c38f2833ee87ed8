// What the compositions of ATen ops have in common. Nothing is read back: a skipped step writes the old values.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>

#include "multi_tensor/items.h"
#include "optim/fused.h"
#include "optim/steps.h"

namespace polycast::optim {

// A list as real tensors; undefined ones where the step does without the list.
class RealList {
 public:
  explicit RealList(at::TensorList list) : tensors_(multi_tensor::as_real(list)) {}

  at::Tensor operator[](size_t index) const {
    return tensors_.empty() ? at::Tensor() : tensors_[index];
  }

  // In the type of the arithmetic.
  at::Tensor get(size_t index, at::ScalarType type) const {
    return tensors_.empty() ? at::Tensor() : tensors_[index].to(type);
  }

 private:
  std::vector<at::Tensor> tensors_;
};

template <class Step>
class Composition {
 public:
  explicit Composition(const Step& step)
      : maximize_(step.maximize),
        lr_(step.lr.reshape({})),
        skip_(scalar(step.found_inf)),
        grad_scale_(scalar(step.grad_scale)),
        clip_coef_(scalar(step.clip_coef)) {
    if (skip_.defined()) {
      skip_ = skip_.ne(0);
    }
  }

  // Of the arithmetic: float64 for parameters of float64, otherwise float32.
  static at::ScalarType type_for(const at::Tensor& param) {
    return multi_tensor::real_type(param) == at::kDouble ? at::kDouble : at::kFloat;
  }

  at::Tensor lr(at::ScalarType type) const {
    return lr_.to(type);
  }

  // The gradient in the type of the arithmetic, unscaled, clipped and, to maximize, negated.
  at::Tensor gradient(const at::Tensor& grad, at::ScalarType type) const {
    at::Tensor result = grad.to(type);
    if (grad_scale_.defined()) {
      result = result / grad_scale_.to(type);
    }
    if (clip_coef_.defined()) {
      result = result * clip_coef_.to(type);
    }
    return maximize_ ? -result : result;
  }

  void write(const at::Tensor& target, const at::Tensor& value) const {
    if (!target.defined()) {
      return;
    }
    const at::Tensor converted = value.to(target.scalar_type());
    target.copy_(skip_.defined() ? at::where(skip_, target, converted) : converted);
  }

 private:
  static at::Tensor scalar(const OptionalTensor& tensor) {
    return tensor.has_value() ? tensor->reshape({}) : at::Tensor();
  }

  bool maximize_;
  at::Tensor lr_;
  at::Tensor skip_;
  at::Tensor grad_scale_;
  at::Tensor clip_coef_;
};

// The step on a device without a kernel of ours.
template <class Step>
void step_elsewhere(const Step& step) {
  check(step);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!step.params.empty() && !step_fused(step)) {
    compose(step);
  }
}

}  // namespace polycast::optim
