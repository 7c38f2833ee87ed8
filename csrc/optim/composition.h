// A step as a composition of ATen ops, for every device without a kernel of its own, for meta and for fake tensors.
// Nothing is read back: a skipped step writes the old values.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <optional>

namespace polycast::optim {

class Composition {
 public:
  Composition(
      const at::Tensor& lr,
      bool maximize,
      const std::optional<at::Tensor>& found_inf,
      const std::optional<at::Tensor>& grad_scale,
      const std::optional<at::Tensor>& clip_coef);

  // float64 for parameters of float64, otherwise float32.
  static at::ScalarType arithmetic_type(const at::Tensor& param);

  at::Tensor lr(at::ScalarType type) const {
    return lr_.to(type);
  }

  // The gradient in the type of the arithmetic, unscaled, clipped and, to maximize, negated.
  at::Tensor gradient(const at::Tensor& grad, at::ScalarType type) const;

  void write(const at::Tensor& target, const at::Tensor& value) const;

 private:
  at::Tensor lr_;
  bool maximize_;
  at::Tensor skip_;
  at::Tensor grad_scale_;
  at::Tensor clip_coef_;
};

}  // namespace polycast::optim
