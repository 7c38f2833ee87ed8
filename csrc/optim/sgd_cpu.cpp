// sgd_step_ on the CPU: one pass over all elements.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include "multi_tensor/items.h"
#include "multi_tensor/lists.h"
#include "optim/checks.h"
#include "optim/scalars_cpu.h"
#include "optim/sgd.h"

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

  [[gnu::always_inline]] void operator()(
      const std::array<Math*, streams>& at, int64_t count, const multi_tensor::Item<streams>& item) const {
    const SgdConstants<Math> shared = !first.empty() && first[item.index] ? at_first : later;
    Math* const param = at[0];
    const Math* const grad = at[1];
    Math* const momentum_buffer = at[streams - 1];
#pragma GCC ivdep
    for (int64_t index = 0; index < count; ++index) {
      Math buffer = momentum_buffer[index];
      sgd_element<Math, momentum, nesterov, decays_grad>(param[index], grad[index], buffer, shared);
      if (momentum) {
        momentum_buffer[index] = buffer;
      }
    }
  }
};

// Marks every momentum as started; returns for which one this step is the first.
std::vector<bool> start(at::TensorList momentum_started) {
  std::vector<bool> first;
  first.reserve(momentum_started.size());
  for (const at::Tensor& started : momentum_started) {
    first.push_back(started.item<double>() == 0);
    started.fill_(1);
  }
  return first;
}

// What is the same for every tensor of a step.
struct SgdShared {
  SgdOptions options;
  StepScalars scalars;
  bool maximize;
};

template <class Math, bool momentum, bool nesterov, bool decays_grad, class Items>
void run(const SgdShared& shared, const std::vector<bool>& first, const Items& items) {
  const double factor = grad_factor(shared.scalars.grad_scale, shared.scalars.clip_coef, shared.maximize);
  multi_tensor::walk<Math>(
      SgdAlgorithm<Math, momentum, nesterov, decays_grad>{
          first, sgd_constants<Math>(shared.options, true, factor), sgd_constants<Math>(shared.options, false, factor)},
      items);
}

template <bool momentum, bool nesterov, bool decays_grad, size_t n>
void run_all(const SgdShared& shared, const SgdLists& lists, const std::array<at::TensorList, n>& streams) {
  const multi_tensor::Items<n> items(
      streams, SgdAlgorithm<float, momentum, nesterov, decays_grad>::written, [&] { check_tensors(lists); });
  check_memory(lists, c10::hash_combine(items.fingerprint(), multi_tensor::fingerprint(lists.momentum_started)));
  if (!is_skipped(shared.scalars.found_inf)) {
    const std::vector<bool> first = start(lists.momentum_started);
    run<float, momentum, nesterov, decays_grad>(shared, first, items.in_float);
    run<double, momentum, nesterov, decays_grad>(shared, first, items.in_double);
    items.write_back();
  }
  raise_versions(lists);
}

template <bool momentum, bool nesterov, size_t n>
void run_decay(const SgdShared& shared, const SgdLists& lists, const std::array<at::TensorList, n>& streams) {
  shared.options.weight_decay != 0 ? run_all<momentum, nesterov, true>(shared, lists, streams)
                                   : run_all<momentum, nesterov, false>(shared, lists, streams);
}

void sgd_step_cpu(
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
  const StepScalars scalars{lr, found_inf, grad_scale, clip_coef};
  check_arguments(lists, scalars);
  const SgdShared shared{{lr.item<double>(), weight_decay, momentum, dampening}, scalars, maximize};
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (momentum_buffers.empty()) {
    run_decay<false, false>(shared, lists, std::array<at::TensorList, 2>{params, grads});
  } else {
    const std::array<at::TensorList, 3> streams{params, grads, momentum_buffers};
    nesterov ? run_decay<true, true>(shared, lists, streams) : run_decay<true, false>(shared, lists, streams);
  }
}

}  // namespace

}  // namespace polycast::optim

TORCH_LIBRARY_IMPL(polycast, CPU, library) {
  library.impl("sgd_step_", TORCH_FN(polycast::optim::sgd_step_cpu));
}
