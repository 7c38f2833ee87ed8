// sgd_step_ on the CPU: one pass over all elements.
#include <torch/library.h>

#include <utility>

#include "kernels/flags.h"
#include "kernels/sgd.h"
#include "kernels/step_cpu.h"

namespace polycast::optim {

namespace {

// Streams: param, grad and, with momentum, momentum_buffer.
template <class Math, bool momentum, bool nesterov, bool decays_grad>
struct SgdAlgorithm {
  static constexpr size_t streams = momentum ? 3 : 2;
  static constexpr std::array<bool, 3> written{true, false, true};

  const std::vector<bool>& first;
  const SgdConstants<Math> at_first;
  const SgdConstants<Math> later;
  const Math grad_factor;

  [[gnu::always_inline]] void operator()(
      const std::array<Math*, streams>& at, int64_t count, const multi_tensor::Item<streams>& item) const {
    const SgdConstants<Math> shared = !first.empty() && first[item.index] ? at_first : later;
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

template <class Number>
bool start(const at::Tensor& started) {
  return std::exchange(*started.mutable_data_ptr<Number>(), Number(1)) == 0;
}

// Marks every momentum as started; returns for which one this step is the first.
std::vector<bool> start(at::TensorList momentum_started) {
  std::vector<bool> first;
  first.reserve(momentum_started.size());
  for (const at::Tensor& started : momentum_started) {
    first.push_back(started.scalar_type() == at::kFloat ? start<float>(started) : start<double>(started));
  }
  return first;
}

template <class Math, bool momentum, bool nesterov, bool decays_grad>
SgdAlgorithm<Math, momentum, nesterov, decays_grad> algorithm(const SgdStep& step, const std::vector<bool>& first) {
  const auto constants = [&](double dampening) {
    return SgdConstants<Math>{
        static_cast<Math>(step.lr.item<double>()),
        static_cast<Math>(step.weight_decay),
        static_cast<Math>(step.momentum),
        static_cast<Math>(1 - dampening)};
  };
  return {first, constants(0), constants(step.dampening), static_cast<Math>(grad_factor(step))};
}

void sgd_step_cpu(const SgdStep& step) {
  const auto run_all = [&](auto has_momentum, auto looks_ahead, auto decays) {
    constexpr bool momentum = has_momentum, nesterov = momentum && looks_ahead, decays_grad = decays;
    using Algorithm = SgdAlgorithm<float, momentum, nesterov, decays_grad>;
    step_on_cpu<Algorithm>(step, [](const SgdStep& part, const auto& items) {
      const std::vector<bool> first = start(part.momentum_started);
      items.walk(
          algorithm<float, momentum, nesterov, decays_grad>(part, first),
          algorithm<double, momentum, nesterov, decays_grad>(part, first));
    });
  };
  multi_tensor::with_flags(run_all, !step.momentum_buffers.empty(), step.nesterov, step.weight_decay != 0);
}

}  // namespace

}  // namespace polycast::optim

TORCH_LIBRARY_IMPL(polycast, CPU, library) {
  library.impl("sgd_step_", polycast::optim::kernel<polycast::optim::SgdStep, &polycast::optim::sgd_step_cpu>);
}
