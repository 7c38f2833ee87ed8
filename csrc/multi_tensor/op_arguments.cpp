#include "multi_tensor/op_arguments.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "multi_tensor/tensor_memory.h"

namespace polycast::multi_tensor {

namespace {

constexpr at::ScalarType any_float = at::ScalarType::Undefined;
const std::vector<ScalarArgument> step_scalars{
    {"lr", any_float, /*on_cpu=*/true}, {"found_inf"}, {"grad_scale", any_float}, {"clip_coef", any_float}};

template <class Wanted, class Got>
std::string expected(const std::string& subject, const Wanted& wanted, const Got& got, const char* fix) {
  return c10::str(subject, ": expected ", wanted, ", got ", got, "; ", fix);
}

std::string python_name(at::ScalarType type) {
  return c10::str("torch.", c10::getDtypeNames(type).first);
}

bool is_of_python(const at::Tensor& tensor) {
  return tensor.key_set().has(c10::DispatchKey::Python);
}

bool has_memory(const at::Tensor& tensor) {
  return !tensor.is_cpu() || is_of_python(tensor) || !tensor.has_storage() || tensor.numel() == 0 ||
         tensor.storage().data() != nullptr;
}

// `model` is the tensor of the first list at the same index, and `first` is the name of that list.
template <class F>
void check_tensor(
    const at::Tensor& tensor, const at::Tensor& model, const char* first, c10::Device device, Use use, const F& name) {
  const auto text = [&](const auto& wanted, const auto& got, const char* fix) {
    return expected(name(), wanted, got, fix);
  };
  const auto sizes = [](const at::Tensor& of) { return c10::str("the sizes ", of.sym_sizes()); };
  const at::ScalarType type = tensor.scalar_type();
  TORCH_CHECK_TYPE(
      tensor.layout() == at::kStrided && is_real(type),
      text(
          "a strided tensor of torch.float32, torch.float64, torch.float16 or torch.bfloat16",
          c10::str("a tensor of ", python_name(type), " with the layout ", tensor.layout()),
          "convert it"));
  TORCH_CHECK(
      tensor.device() == device,
      text(
          c10::str("a tensor on ", device, ", like ", first, "[0]"),
          c10::str("one on ", tensor.device()),
          "move it there"));
  TORCH_CHECK(
      use == Use::read || !tensor.is_inference() || c10::InferenceMode::is_enabled(),
      text(
          "a tensor that can be written",
          "an inference tensor",
          "clone it outside of torch.inference_mode(), or make this call inside that mode"));
  TORCH_CHECK_VALUE(
      use == Use::read || at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
      text("memory for each element", "an expanded tensor of " + sizes(tensor), "clone it first"));
  TORCH_CHECK(
      has_memory(tensor),
      text("memory for " + sizes(tensor), "a storage that was resized to 0 bytes", "restore its data first"));
  if (use == Use::counter) {
    TORCH_CHECK_VALUE(
        tensor.sym_numel() == 1 && (type == at::kFloat || type == at::kDouble),
        text(
            "one element of torch.float32 or torch.float64",
            c10::str(tensor.sym_numel(), " of ", python_name(type)),
            "pass the number of steps as a torch.float32 tensor of one element"));
  } else {
    TORCH_CHECK_VALUE(
        tensor.sym_sizes() == model.sym_sizes(),
        text(sizes(model) + " of its parameter", sizes(tensor), "pass a tensor with the sizes of the parameter"));
  }
}

void check_scalar(const ScalarArgument& argument, const at::Tensor& tensor, std::optional<c10::Device> device) {
  const at::ScalarType type = tensor.scalar_type();
  TORCH_CHECK_VALUE(
      tensor.sym_numel() == 1,
      expected(argument.name, "one element", tensor.sym_numel(), "pass a tensor of one element"));
  TORCH_CHECK_TYPE(
      argument.type == any_float ? at::isFloatingType(type) : type == argument.type,
      expected(
          argument.name,
          argument.type == any_float ? "a floating-point dtype" : python_name(argument.type),
          python_name(type),
          "convert it"));
  const bool is_allowed = !device.has_value() || tensor.device() == *device || (argument.on_cpu && tensor.is_cpu());
  TORCH_CHECK(
      is_allowed,
      expected(
          argument.name, c10::str("a tensor on ", *device), c10::str("one on ", tensor.device()), "move it there"));
}

}  // namespace

const OpArguments& OpArguments::of(std::string_view op) {
  static const std::vector<OpArguments> all{
      {"adam_step_",
       {{"params", Use::written},
        {"grads", Use::read},
        {"exp_avgs", Use::written},
        {"exp_avg_sqs", Use::written},
        {"max_exp_avg_sqs", Use::written, /*optional=*/true},
        {"steps", Use::counter}},
       step_scalars},
      {"sgd_step_",
       {{"params", Use::written}, {"grads", Use::read}, {"momentum_buffers", Use::written, /*optional=*/true}},
       step_scalars},
      {"find_non_finite", {{"tensors", Use::read}}, {}, /*needs_tensors=*/true},
      {"norm", {{"tensors", Use::read}}, {{"grad_scale", any_float}}, /*needs_tensors=*/true},
      {"unscale_", {{"grads", Use::written}}, {{"found_inf"}, {"inv_scale", any_float}}},
      {"update_scale_", {}, {{"scale"}, {"growth_tracker", at::kInt}, {"found_inf"}}},
  };
  const auto found = std::find_if(all.begin(), all.end(), [&](const OpArguments& each) { return each.op == op; });
  TORCH_INTERNAL_ASSERT(found != all.end(), op);
  return *found;
}

void check_scalars(const Call& call) {
  const OpArguments& op = call.expected;
  for (size_t list = 0; list < call.lists.size(); ++list) {
    const size_t size = call.lists[list].size(), wanted = call.lists[0].size();
    TORCH_CHECK_VALUE(
        size == wanted || (size == 0 && op.lists[list].optional),
        expected(
            op.lists[list].name,
            c10::str(wanted, " tensors, as many as ", op.lists[0].name),
            size,
            "pass one for each"));
    TORCH_CHECK_VALUE(
        size > 0 || !op.needs_tensors, expected(op.lists[list].name, "at least one tensor", "none", "pass one"));
  }
  std::optional<c10::Device> device;
  if (op.lists.empty()) {
    device = call.scalars[0]->device();
  } else if (!call.lists.empty() && !call.lists[0].empty()) {
    device = call.lists[0][0].device();
  }
  for (size_t index = 0; index < call.scalars.size(); ++index) {
    if (call.scalars[index].has_value()) {
      check_scalar(op.scalars[index], *call.scalars[index], device);
    }
  }
}

void check_list(const Call& call, size_t list) {
  const at::TensorList tensors = call.lists[list], models = call.lists[0];
  const ListArgument& argument = call.expected.lists[list];
  const auto check_range = [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      prefetch_ahead(tensors, index);
      const auto name = [&] { return c10::str(argument.name, "[", index, "]"); };
      check_tensor(tensors[index], models[index], call.expected.lists[0].name, models[0].device(), argument.use, name);
    }
  };
  const auto count = static_cast<int64_t>(tensors.size());
  // A read of the sizes of a tensor subclass may run Python. Other threads would then wait for the GIL, which this
  // thread may hold while it waits for these threads.
  if (count == 0 || is_of_python(models[0])) {
    check_range(0, count);
  } else {
    at::parallel_for(0, count, tensor_grain_size, check_range);
  }
}

void check(const Call& call) {
  check_scalars(call);
  for (size_t list = 0; list < call.lists.size(); ++list) {
    check_list(call, list);
  }
}

void raise_versions(const Call& call) {
  for (size_t list = 0; list < call.lists.size(); ++list) {
    if (call.expected.lists[list].use != Use::read) {
      raise_versions(call.lists[list]);
    }
  }
}

}  // namespace polycast::multi_tensor
