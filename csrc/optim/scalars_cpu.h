// The one-element arguments of a step, read where the CPU may read them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace polycast::optim {

inline double value_or(const std::optional<at::Tensor>& tensor, double otherwise) {
  return tensor.has_value() ? tensor->item<double>() : otherwise;
}

inline bool is_skipped(const std::optional<at::Tensor>& found_inf) {
  return value_or(found_inf, 0) != 0;
}

// What a gradient is multiplied by before anything else.
inline double grad_factor(
    const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& clip_coef, bool maximize) {
  return (maximize ? -1.0 : 1.0) / value_or(grad_scale, 1) * value_or(clip_coef, 1);
}

}  // namespace polycast::optim
