#include "optim/fused.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_abs.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ne.h>

#include <algorithm>
#include <utility>

#include "multi_tensor/lists.h"
#include "multi_tensor/torch_kernels.h"

namespace polycast::optim {

namespace {

using Tensors = std::vector<at::Tensor>;

// Those items of a step that go into one call of torch's kernel.
struct Part {
  at::ScalarType type;  // of the arithmetic
  bool is_staged;       // whether the call takes copies
  std::vector<Tensors> streams;
  Tensors counters;
};

bool is_fake(const at::Tensor& tensor) {
  return tensor.key_set().has(c10::DispatchKey::Python);
}

at::ScalarType widest(c10::ArrayRef<Tensors> streams, size_t index) {
  at::ScalarType type = at::kFloat;
  for (const Tensors& stream : streams) {
    type = !stream.empty() && stream[index].scalar_type() == at::kDouble ? at::kDouble : type;
  }
  return type;
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
  for (size_t index = 0; index < step.params.size(); ++index) {
    const bool is_staged = !fits_kernel(streams, index) || (streams[0][index].itemsize() == 2 && !takes_half(step));
    const at::ScalarType type = is_staged ? widest(streams, index) : streams[0][index].scalar_type();
    const auto is_it = [&](const Part& part) { return part.type == type && part.is_staged == is_staged; };
    auto part = std::find_if(parts.begin(), parts.end(), is_it);
    if (part == parts.end()) {
      part = parts.insert(part, Part{type, is_staged, std::vector<Tensors>(streams.size()), {}});
    }
    for (size_t stream = 0; stream < streams.size(); ++stream) {
      if (!streams[stream].empty()) {
        part->streams[stream].push_back(streams[stream][index]);
      }
    }
    const at::TensorList counters = step.counters().tensors;
    if (!counters.empty()) {
      part->counters.push_back(counters[index]);
    }
  }
  return parts;
}

// A list in the type of the arithmetic, all laid out alike: itself, or copies. A list that is so, where there is one,
// gives the copies their memory all at once.
Tensors staged(const Part& part, const Tensors& list) {
  const auto fits = [&](const Tensors& stream) {
    return std::all_of(stream.begin(), stream.end(), [&](const at::Tensor& tensor) {
      return tensor.scalar_type() == part.type && tensor.is_contiguous();
    });
  };
  if (fits(list)) {
    return list;
  }
  const auto model = std::find_if(
      part.streams.begin(), part.streams.end(), [&](const Tensors& stream) { return !stream.empty() && fits(stream); });
  Tensors copies;
  if (model != part.streams.end()) {
    copies = at::_foreach_abs(*model);
  } else {
    for (const at::Tensor& tensor : list) {
      copies.push_back(at::empty_like(tensor, part.type, {}, {}, {}, at::MemoryFormat::Contiguous));
    }
  }
  at::_foreach_copy_(copies, list);
  return copies;
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

// Runs call(lists, lr, divisor, found_inf) for each part, lr a number or a tensor on the device.
template <class Step, class Call>
void call_parts(const Step& step, std::vector<Part> parts, const Call& call) {
  const at::Tensor divisor = divisor_of(step);
  at::Tensor found_inf;  // as 0 or 1
  if (step.found_inf.has_value()) {
    found_inf = at::empty_like(*step.found_inf);
    at::ne_out(found_inf, *step.found_inf, 0);
  }
  for (Part& part : parts) {
    std::vector<Tensors> lists = part.streams;
    if (part.is_staged) {
      std::transform(
          lists.begin(), lists.end(), lists.begin(), [&](const Tensors& list) { return staged(part, list); });
    }
    if (is_fake(step.lr)) {  // has no value
      call(part, lists, 0.0, optional(divisor), optional(found_inf));
    } else if (step.lr.is_cpu()) {
      call(part, lists, step.lr.template item<double>(), optional(divisor), optional(found_inf));
    } else {
      call(part, lists, step.lr.reshape({}).to(at::kFloat), optional(divisor), optional(found_inf));
    }
    const auto streams = step.streams();
    for (size_t stream = 0; part.is_staged && stream < streams.size(); ++stream) {
      if (streams[stream].written && !lists[stream].empty() && !lists[stream][0].is_same(part.streams[stream][0])) {
        at::_foreach_copy_(part.streams[stream], lists[stream]);
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
  return std::all_of(parts.begin(), parts.end(), is_exact) && !multi_tensor::may_overlap(step.params) &&
         !(divides && multi_tensor::may_overlap(step.grads));
}

}  // namespace

bool step_fused(const AdamStep& step) {
  const auto is_float = [](const at::Tensor& count) { return count.scalar_type() == at::kFloat; };
  if (!multi_tensor::has_torch_kernels(step.params[0]) ||
      !std::all_of(step.steps.begin(), step.steps.end(), is_float)) {
    return false;
  }
  std::vector<Part> parts = parts_of(step);
  if (!can_take(step, parts)) {
    return false;
  }
  call_parts(step, std::move(parts), [&](Part& part, auto& lists, const auto& lr, auto divisor, auto found_inf) {
    const auto run = [&](const auto& fused) {
      fused(
          lists[0],
          lists[1],
          lists[2],
          lists[3],
          lists[4],
          part.counters,
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
    at::_foreach_add_(part.counters, 1);
    step.decoupled_weight_decay ? run([](auto&&... arguments) { at::_fused_adamw_(arguments...); })
                                : run([](auto&&... arguments) { at::_fused_adam_(arguments...); });
    if (found_inf.has_value()) {
      at::_foreach_sub_(part.counters, Tensors(part.counters.size(), found_inf->reshape({})));
    }
  });
  return true;
}

bool step_fused(const SgdStep& step) {
  const bool serves = multi_tensor::has_torch_kernels(step.params[0]) && !is_fake(step.params[0]);  // none for meta
  if (!serves || !step.momentum_started.empty()) {
    return false;
  }
  std::vector<Part> parts = parts_of(step);
  if (!can_take(step, parts)) {
    return false;
  }
  call_parts(step, std::move(parts), [&](Part&, auto& lists, const auto& lr, auto divisor, auto found_inf) {
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
