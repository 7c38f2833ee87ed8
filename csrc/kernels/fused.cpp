#include "kernels/fused.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ne.h>

#include <algorithm>
#include <vector>

#include "kernels/lists.h"
#include "kernels/parts.h"
#include "kernels/torch_kernels.h"

namespace polycast::optim {

namespace {

using multi_tensor::Part;
using Tensors = std::vector<at::Tensor>;

bool is_fake(const at::Tensor& tensor) {
  return tensor.key_set().has(c10::DispatchKey::Python);
}

// Whether the kernel takes an item as it is.
bool fits_kernel(c10::ArrayRef<Tensors> streams, size_t index) {
  const at::Tensor& model = streams[0][index];
  return model.is_non_overlapping_and_dense() &&
         std::all_of(streams.begin(), streams.end(), [&](const Tensors& stream) {
           return stream.empty() ||
                  (stream[index].scalar_type() == model.scalar_type() && stream[index].strides() == model.strides());
         });
}

// Torch's SGD leaves out every other half vector of 16-bit elements on the CPU (2.9 to 2.13), unlike its Adam.
bool takes_half(const AdamStep&) {
  return true;
}
bool takes_half(const SgdStep& step) {
  return !step.params[0].is_cpu();
}

template <class Step>
std::vector<Part> parts_of(const Step& step) {
  std::vector<Tensors> streams;
  for (const multi_tensor::List& list : step.streams()) {
    streams.push_back(multi_tensor::as_real(list.tensors));
  }
  std::vector<Part> parts;
  for (size_t place = 0; place < step.params.size(); ++place) {
    const at::Tensor& param = streams[0][place];
    const bool is_staged = !fits_kernel(streams, place) || (param.itemsize() == 2 && !takes_half(step));
    const at::ScalarType type = is_staged ? widest_type(step, place) : param.scalar_type();
    const int64_t limit = is_staged ? multi_tensor::joined_limit : multi_tensor::no_limit;
    multi_tensor::add_place(parts, place, param, type, is_staged, limit);
  }
  return parts;
}

// A list in the type of the arithmetic, laid out as the parameters are: itself, or copies.
Tensors staged(const Tensors& params, const Tensors& list, at::ScalarType type) {
  const auto fits = [&](size_t index) {
    return list[index].scalar_type() == type && params[index].is_non_overlapping_and_dense() &&
           list[index].strides() == params[index].strides();
  };
  for (size_t index = 0; index < list.size(); ++index) {
    if (!fits(index)) {
      return multi_tensor::split_like(params, multi_tensor::join_like(params, list, type));
    }
  }
  return list;
}

template <class Step>
at::Tensor divisor_of(const Step& step) {
  const auto number = [](const at::Tensor& tensor) { return tensor.reshape({}).to(at::kFloat); };
  if (!step.clip_coef.has_value()) {
    return step.grad_scale.has_value() ? number(*step.grad_scale) : at::Tensor();
  }
  return step.grad_scale.has_value() ? number(*step.grad_scale) / number(*step.clip_coef)
                                     : number(*step.clip_coef).reciprocal();
}

OptionalTensor optional(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

// Runs call(lists, counters, lr, divisor, found_inf) for each part, lr a number or a tensor on the device.
template <class Step, class Call>
void call_parts(const Step& step, const std::vector<Part>& parts, const Call& call) {
  const at::Tensor divisor = divisor_of(step);
  at::Tensor found_inf;  // as 0 or 1
  if (step.found_inf.has_value()) {
    found_inf = at::empty_like(*step.found_inf);
    at::ne_out(found_inf, *step.found_inf, 0);
  }
  const auto streams = step.streams();
  for (const Part& part : parts) {
    std::vector<Tensors> originals, lists;
    for (const multi_tensor::List& stream : streams) {
      originals.push_back(multi_tensor::as_real(part.of(stream.tensors)));
      lists.push_back(part.is_joined ? staged(originals[0], originals.back(), part.type) : originals.back());
    }
    const auto run = [&](const auto& lr) {
      call(lists, part.of(step.counters().tensors), lr, optional(divisor), optional(found_inf));
    };
    if (is_fake(step.lr)) {  // has no value
      run(0.0);
    } else if (step.lr.is_cpu()) {
      run(step.lr.template item<double>());
    } else {
      run(step.lr.reshape({}).to(at::kFloat));
    }
    for (size_t stream = 0; stream < streams.size(); ++stream) {
      if (streams[stream].written && !lists[stream].empty() && !lists[stream][0].is_same(originals[stream][0])) {
        at::_foreach_copy_(originals[stream], lists[stream]);
      }
    }
  }
  if (divisor.defined()) {
    multi_tensor::raise_versions(step.grads);
  }
  raise_versions(step);
}

// What holds for any algorithm.
template <class Step>
bool can_take(const Step& step, const std::vector<Part>& parts) {
  const bool divides = step.grad_scale.has_value() || step.clip_coef.has_value();
  const auto is_exact = [&](const Part& part) { return part.type != at::kDouble || !divides; };
  return std::all_of(parts.begin(), parts.end(), is_exact) && !any_overlap(step);
}

}  // namespace

bool step_fused(const AdamStep& step) {
  const auto is_float = [](const at::Tensor& count) { return count.scalar_type() == at::kFloat; };
  if (!multi_tensor::has_torch_kernels(step.params[0]) ||
      !std::all_of(step.steps.begin(), step.steps.end(), is_float)) {
    return false;
  }
  const std::vector<Part> parts = parts_of(step);
  if (!can_take(step, parts)) {
    return false;
  }
  call_parts(step, parts, [&](auto& lists, const Tensors& counters, const auto& lr, auto divisor, auto found_inf) {
    const auto run = [&](const auto& fused) {
      fused(
          lists[0],
          lists[1],
          lists[2],
          lists[3],
          lists[4],
          counters,
          lr,
          step.beta1,
          step.beta2,
          step.weight_decay,
          step.eps,
          !lists[4].empty(),
          step.maximize,
          divisor,
          found_inf);
    };
    // Torch's kernels take the number of this step, and a step that is skipped is not counted.
    at::_foreach_add_(counters, 1);
    step.decoupled_weight_decay ? run([](auto&&... arguments) { at::_fused_adamw_(arguments...); })
                                : run([](auto&&... arguments) { at::_fused_adam_(arguments...); });
    if (found_inf.has_value()) {
      at::_foreach_sub_(counters, Tensors(counters.size(), found_inf->reshape({})));
    }
  });
  return true;
}

bool step_fused(const SgdStep& step) {
  const bool serves = multi_tensor::has_torch_kernels(step.params[0]) && !is_fake(step.params[0]);  // none for meta
  if (!serves || !step.momentum_started.empty()) {
    return false;
  }
  const std::vector<Part> parts = parts_of(step);
  if (!can_take(step, parts)) {
    return false;
  }
  call_parts(step, parts, [&](auto& lists, const Tensors&, const auto& lr, auto divisor, auto found_inf) {
    // A buffer of zeros takes the first gradient as it is.
    at::_fused_sgd_(
        lists[0],
        lists[1],
        lists[2],
        step.weight_decay,
        step.momentum,
        lr,
        step.dampening,
        step.nesterov,
        step.maximize,
        /*is_first_step=*/false,
        divisor,
        found_inf);
  });
  return true;
}

}  // namespace polycast::optim
