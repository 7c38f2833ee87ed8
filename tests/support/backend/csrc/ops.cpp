// The device's kernels in C++. A few ops work on the device's memory, and run_on_host runs the others on the CPU.

#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/ScopeExit.h>
#include <torch/library.h>

#include <atomic>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "device.h"

namespace mimic {
namespace {

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

std::atomic<bool> syncs_raise = false;
thread_local bool inside_fallback = false;

void note_sync() {
  TORCH_CHECK(inside_fallback || !syncs_raise, "the host waits for the device");
}

// --- memory ---

at::Tensor empty(
    c10::IntArrayRef size,
    std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout>,
    std::optional<c10::Device> device,
    std::optional<bool>,
    std::optional<c10::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guarded(device);
  return at::detail::empty_generic(size, allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    c10::IntArrayRef size,
    c10::IntArrayRef stride,
    std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout>,
    std::optional<c10::Device> device,
    std::optional<bool>) {
  const c10::OptionalDeviceGuard guarded(device);
  return at::detail::empty_strided_generic(size, stride, allocator(), kKeys, c10::dtype_or_default(dtype));
}

// Returns a CPU tensor over the same bytes, because the device's memory is CPU memory.
at::Tensor bytes_of(const at::Tensor& tensor) {
  if (tensor.device().type() != kType) return tensor;
  at::Tensor bytes = at::from_blob(
      tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(c10::DeviceType::CPU));
  bytes._set_conj(tensor.is_conj());
  bytes._set_neg(tensor.is_neg());
  return bytes;
}

// As on CUDA, a copy between the CPU and the device is a device sync, unless it is non_blocking.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (from.device().type() != to.device().type() && !non_blocking) note_sync();
  bytes_of(to).copy_(bytes_of(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  at::native::resize_(to, from.sizes());
  return copy_from(from, to, /*non_blocking=*/false);
}

// --- everything else ---

// Returns whether an argument may also be on the CPU: indices, and lengths that determine the size of a result.
bool may_be_on_host(const std::string& argument) {
  static const std::unordered_set<std::string> names{
      "batch_sizes", "indices", "input_lengths", "lengths", "target_lengths"};
  return names.count(argument) > 0;
}

template <class Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor() && value.toTensor().defined()) {
    visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) visit_tensors(item, visit);
  }
}

// Returns the device of the arguments. Raises for several devices, but accepts numbers, indices and lengths on the CPU.
c10::Device common_device(const c10::FunctionSchema& schema, torch::jit::Stack& arguments) {
  std::optional<c10::Device> common;
  for (size_t index = 0; index < arguments.size(); ++index) {
    const std::string& name = schema.arguments()[index].name();
    visit_tensors(arguments[index], [&](const at::Tensor& tensor) {
      const bool on_host = tensor.device().is_cpu();
      if (on_host && (tensor.dim() == 0 || may_be_on_host(name))) return;
      if (!common) common = tensor.device();
      TORCH_CHECK(
          *common == tensor.device(),
          schema.name(),
          ": expected all tensors to be on the same device, but found ",
          *common,
          " and ",
          tensor.device());
    });
    if (name == "device" && arguments[index].isDevice()) common = arguments[index].toDevice();
  }
  return common && common->has_index() ? *common : c10::Device(kType, current_device());
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& parameters = op.schema().arguments();
  torch::jit::Stack arguments(stack->end() - parameters.size(), stack->end());
  const c10::Device device = common_device(op.schema(), arguments);
  if (op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape)) note_sync();
  for (size_t index = 0; index < parameters.size(); ++index) {
    if (parameters[index].name() != "generator") continue;
    c10::IValue& value = (*stack)[stack->size() - parameters.size() + index];
    value = host_generator(value.isNone() ? default_generator(device.index()) : value.toGenerator());
  }
  const c10::OptionalDeviceGuard guarded(device);
  // The fallback's copies do not count as syncs, because a real device's kernel would not make them.
  const auto reset = c10::make_scope_exit([outer = std::exchange(inside_fallback, true)] { inside_fallback = outer; });
  at::native::cpu_fallback(op, stack);
}

// PyTorch calls convolution_overrideable for convolutions on an external device, with aten::convolution's arguments.
void convolution(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
  run_on_host(op, stack);
}

void convolution_backward(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", "");
  // This op has the sizes of the bias before its last seven arguments. They only show whether there is a bias.
  stack->insert(stack->end() - 7, c10::IntArrayRef());
  run_on_host(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  library.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  // These are PyTorch's CPU functions, which change only sizes, strides and storages.
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("resize_", at::native::resize_);
  library.impl("set_.source_Storage", at::native::set_);
  library.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
  library.impl("set_.source_Tensor", at::native::set_tensor_);
  library.impl("unfold", at::native::unfold);
  library.impl("view", at::native::view);
  library.impl("view_as_complex", at::native::view_as_complex);
  library.impl("view_as_real", at::native::view_as_real);
}

// copy_from handles the bits of these keys. PyTorch's kernels for the keys would call each other endlessly.
TORCH_LIBRARY_IMPL(aten, Conjugate, library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace

void raise_at_syncs(bool raises) {
  syncs_raise = raises;
}

}  // namespace mimic
