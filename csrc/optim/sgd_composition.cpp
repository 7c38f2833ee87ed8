// sgd_step_ as a composition of ATen ops.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "multi_tensor/lists.h"
#include "optim/checks.h"
#include "optim/composition.h"
#include "optim/sgd.h"

namespace polycast::optim {

namespace {

struct SgdTensors {
  at::Tensor param;
  at::Tensor grad;
  at::Tensor momentum_buffer;   // undefined without momentum
  at::Tensor momentum_started;  // undefined where every step is dampened alike
};

void step_one(const Composition& composition, const SgdOptions& options, bool nesterov, const SgdTensors& tensors) {
  const at::ScalarType type = Composition::arithmetic_type(tensors.param);
  const at::Tensor param = tensors.param.to(type);
  at::Tensor grad = composition.gradient(tensors.grad, type);
  if (options.weight_decay != 0) {
    grad = grad.add(param, options.weight_decay);
  }
  if (tensors.momentum_buffer.defined()) {
    at::Tensor dampened = grad * (1 - options.dampening);
    if (tensors.momentum_started.defined()) {
      dampened = at::where(tensors.momentum_started.reshape({}).ne(0), dampened, grad);
      composition.write(tensors.momentum_started, at::ones_like(tensors.momentum_started));
    }
    const at::Tensor buffer = dampened.add(tensors.momentum_buffer.to(type), options.momentum);
    composition.write(tensors.momentum_buffer, buffer);
    grad = nesterov ? grad.add(buffer, options.momentum) : buffer;
  }
  composition.write(tensors.param, param - grad * composition.lr(type));
}

void sgd_step_composition(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList momentum_buffers,
    at::TensorList momentum_started,
    const at::Tensor& lr,
    double weight_decay,
    double momentum,
    double dampening,
    bool nesterov,
    bool maximize,
    const OptionalTensor& found_inf,
    const OptionalTensor& grad_scale,
    const OptionalTensor& clip_coef) {
  const SgdLists lists{params, grads, momentum_buffers, momentum_started};
  check_arguments(lists, {lr, found_inf, grad_scale, clip_coef});
  check_tensors(lists);
  check_memory(lists);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Composition composition(lr, maximize, found_inf, grad_scale, clip_coef);
  const SgdOptions options{0, weight_decay, momentum, dampening};
  const std::vector<at::Tensor> real_params = multi_tensor::as_real(params);
  const std::vector<at::Tensor> real_grads = multi_tensor::as_real(grads);
  const std::vector<at::Tensor> buffers = multi_tensor::as_real(momentum_buffers);
  for (size_t index = 0; index < params.size(); ++index) {
    step_one(
        composition,
        options,
        nesterov,
        {real_params[index],
         real_grads[index],
         buffers.empty() ? at::Tensor() : buffers[index],
         momentum_started.empty() ? at::Tensor() : momentum_started[index]});
  }
  raise_versions(lists);
}

}  // namespace

}  // namespace polycast::optim

TORCH_LIBRARY_IMPL(polycast, CompositeExplicitAutograd, library) {
  library.impl("sgd_step_", TORCH_FN(polycast::optim::sgd_step_composition));
}
