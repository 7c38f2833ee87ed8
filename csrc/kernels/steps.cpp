#include "kernels/steps.h"

#include <cmath>

#include "kernels/checks.h"

namespace polycast::optim {

void check_arguments(
    const char* op,
    c10::ArrayRef<multi_tensor::List> streams,
    const multi_tensor::List& counters,
    const at::Tensor& lr,
    const OptionalTensor& found_inf,
    const OptionalTensor& grad_scale,
    const OptionalTensor& clip_coef) {
  multi_tensor::check_lengths(op, streams);
  multi_tensor::check_lengths(op, {streams[0], counters});
  if (streams[0].tensors.empty()) {
    return;
  }
  const c10::Device device = streams[0].tensors[0].device();
  multi_tensor::check_scalar(op, "lr", lr, lr.is_cpu() ? lr.device() : device);
  // On the host there is a value to look at.
  if (lr.is_cpu() && !lr.key_set().has(c10::DispatchKey::Python)) {
    const auto value = lr.item<double>();
    TORCH_CHECK_VALUE(!std::isnan(value), op, ": lr is ", value, "; pass a number");
  }
  multi_tensor::check_found_inf(op, found_inf, device);
  multi_tensor::check_scalar(op, "grad_scale", grad_scale, device);
  multi_tensor::check_scalar(op, "clip_coef", clip_coef, device);
}

}  // namespace polycast::optim
