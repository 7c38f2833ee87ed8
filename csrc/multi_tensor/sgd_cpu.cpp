// The operator `sgd_step_` on the CPU: one pass over all elements.
#include <torch/library.h>

#include "multi_tensor/fused_step.h"
#include "multi_tensor/sgd.h"

namespace polycast::optim {

namespace {

// The streams are `param`, `grad` and, with momentum, `momentum_buffer`.
template <class Math, bool momentum, bool nesterov, bool decays_grad>
struct SgdAlgorithm {
  static constexpr size_t streams = momentum ? 3 : 2;
  static constexpr std::array<bool, 3> written{true, false, true};

  const SgdConstants<Math> constants;
  const Math grad_factor;

  [[gnu::always_inline]] void operator()(
      const std::array<Math*, streams>& at, int64_t count, const multi_tensor::Item<streams>&) const {
    const SgdConstants<Math> shared = constants;
    const Math factor = grad_factor;
    Math* const param = at[0];
    const Math* const grad = at[1];
    Math* const momentum_buffer = at[streams - 1];
#pragma GCC ivdep
    for (int64_t index = 0; index < count; ++index) {
      SgdElement<Math> element{param[index], grad[index] * factor, momentum_buffer[index]};
      sgd_element<momentum, nesterov, decays_grad>(element, shared);
      param[index] = element.param;
      if (momentum) {
        momentum_buffer[index] = element.momentum_buffer;
      }
    }
  }
};

void sgd_step_cpu(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList momentum_buffers,
    double lr,
    double weight_decay,
    double momentum,
    bool nesterov,
    bool maximize,
    const OptionalTensor& lr_tensor,
    const OptionalTensor& found_inf,
    const OptionalTensor& grad_scale,
    const OptionalTensor& clip_coef) {
  const StepScalars scalars{lr_tensor, found_inf, grad_scale, clip_coef};
  const auto run_all = [&](auto has_momentum, auto looks_ahead, auto decays) {
    constexpr bool with_momentum = has_momentum, with_nesterov = with_momentum && looks_ahead, decays_grad = decays;
    using Algorithm = SgdAlgorithm<float, with_momentum, with_nesterov, decays_grad>;
    fused_step<Algorithm>("sgd_step_", {params, grads, momentum_buffers}, scalars, [&](const auto& items) {
      const auto algorithm = [&](auto zero) {
        using Math = decltype(zero);
        const SgdConstants<Math> constants{
            static_cast<Math>(value_or(lr_tensor, lr)), static_cast<Math>(weight_decay), static_cast<Math>(momentum)};
        return SgdAlgorithm<Math, with_momentum, with_nesterov, decays_grad>{
            constants, static_cast<Math>(grad_factor(scalars, maximize))};
      };
      items.apply(algorithm(float{}), algorithm(double{}));
    });
  };
  dispatch_bools(run_all, !momentum_buffers.empty(), nesterov, weight_decay != 0);
}

TORCH_LIBRARY_IMPL(polycast, CPU, library) {
  library.impl("sgd_step_", &sgd_step_cpu);
}

}  // namespace

}  // namespace polycast::optim
