#include "multi_tensor/scale_checks.h"

#include "multi_tensor/checks.h"

namespace polycast::scale {

// Without a tensor there is no device for the result.
void check_not_empty(const char* op, at::TensorList tensors) {
  TORCH_CHECK_VALUE(!tensors.empty(), op, ": tensors is empty; pass at least one");
}

void check_tensors(const char* op, at::TensorList tensors) {
  multi_tensor::check_lists(op, {{"tensors", tensors, false}});
}

void check_norm_type(double norm_type) {
  TORCH_CHECK_VALUE(norm_type > 0, "norm: norm_type is ", norm_type, "; it takes a positive number, or infinity");
}

void check_unscale(at::TensorList grads, const at::Tensor& found_inf, const at::Tensor& inv_scale) {
  constexpr const char* op = "unscale_";
  if (grads.empty()) {
    return;
  }
  multi_tensor::check_lists(op, {{"grads", grads, true}});
  multi_tensor::check_found_inf(op, found_inf, grads[0].device());
  multi_tensor::check_scalar(op, "inv_scale", inv_scale, grads[0].device());
}

void check_update(const at::Tensor& scale, const at::Tensor& growth_tracker, const at::Tensor& found_inf) {
  constexpr const char* op = "update_scale_";
  multi_tensor::check_scalar(op, "scale", scale, scale.device());
  TORCH_CHECK_TYPE(
      scale.scalar_type() == at::kFloat,
      op,
      ": scale is of ",
      multi_tensor::python_name(scale.scalar_type()),
      "; it takes torch.float32");
  multi_tensor::check_found_inf(op, found_inf, scale.device());
  TORCH_CHECK_TYPE(
      growth_tracker.scalar_type() == at::kInt,
      op,
      ": growth_tracker is of ",
      multi_tensor::python_name(growth_tracker.scalar_type()),
      "; it takes torch.int32");
  TORCH_CHECK_VALUE(
      growth_tracker.sym_numel() == 1,
      op,
      ": growth_tracker has ",
      growth_tracker.sym_numel(),
      " elements; it takes one");
  TORCH_CHECK(
      growth_tracker.device() == scale.device(),
      op,
      ": growth_tracker is on ",
      growth_tracker.device(),
      " and scale on ",
      scale.device(),
      "; move it there");
}

}  // namespace polycast::scale
