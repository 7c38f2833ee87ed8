// A stored call of the program: its tensors, and the code that repeats the call.
#include <ATen/ops/aminmax.h>
#include <ATen/ops/isfinite.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <cmath>

#include "autocast/tensors_in.h"
#include "call_recorder/program_calls.h"

namespace polycast::call_recorder {

namespace {

at::Tensor detached(const at::Tensor& tensor) {
  // A dispatch mode would run the detach in Python. If the mode raised an error, the call would be lost.
  const c10::impl::ExcludeDispatchKeyGuard no_mode(c10::DispatchKey::Python);
  auto* const impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(
      impl->is_inference() ? c10::VariableVersion() : impl->version_counter(),
      /*allow_tensor_metadata_change=*/true));
}

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

size_t bytes_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().nbytes() : 0;
}

bool is_lower_dtype(const c10::IValue& value, const c10::Argument& argument) {
  static const c10::TypePtr optional_dtype = c10::OptionalType::create(c10::ScalarTypeType::get());
  const auto is = [&](at::ScalarType dtype) { return value.toInt() == static_cast<int64_t>(dtype); };
  return argument.real_type()->isSubtypeOf(*optional_dtype) && value.isInt() && (is(at::kHalf) || is(at::kBFloat16));
}

}  // namespace

bool is_finite(const at::Tensor& tensor, at::Tensor& flag) {
  if (tensor.layout() == at::kSparse) {  // Gradients of embeddings can be sparse.
    return is_finite(tensor._values(), flag);
  }
  if (!(tensor.is_floating_point() || tensor.is_complex()) || tensor.is_meta() || tensor.numel() == 0 ||
      tensor.layout() != at::kStrided || tensor.is_nested() || tensor._is_zerotensor() || tensor.is_quantized()) {
    return true;
  }
  if (tensor.itemsize() == 1) {  // The ops below do not support float8, and float4 has no Inf or NaN.
    return !at::isFloat8Type(tensor.scalar_type()) || is_finite(tensor.to(at::kFloat), flag);
  }
  if (tensor.is_cpu() && !tensor.is_complex()) {
    // `at::aminmax` is much slower along the strides of a `channels_last` tensor than in the order of memory.
    const bool is_dense = tensor.is_non_overlapping_and_dense();
    const auto [least, most] = at::aminmax(is_dense ? tensor.as_strided({tensor.numel()}, {1}) : tensor);
    return std::isfinite(least.item<double>()) && std::isfinite(most.item<double>());
  }
  const at::Tensor all = at::isfinite(tensor).all();
  if (tensor.is_cpu()) {
    return all.item<bool>();
  }
  flag = all;
  return true;
}

c10::intrusive_ptr_target* memory_of(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.layout() != at::kStrided || tensor.is_nested()) {
    return tensor.unsafeGetTensorImpl();
  }
  return tensor.storage().unsafeGetStorageImpl();
}

Key key_of(const at::Tensor& tensor) {
  const c10::intrusive_ptr_target* const memory = memory_of(tensor);
  const auto address = reinterpret_cast<uint64_t>(memory);
  if (memory == tensor.unsafeGetTensorImpl()) {
    return {address, 0};
  }
  uint64_t layout = 0;
  const auto mix = [&](int64_t value) {  // `c10::get_hash` returns equal hashes for many views of one tensor.
    layout = (layout ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
    layout ^= layout >> 32;
  };
  mix(tensor.storage_offset());
  mix(static_cast<int64_t>(tensor.scalar_type()) * 4 + tensor.is_conj() * 2 + tensor.is_neg());
  std::for_each(tensor.sizes().begin(), tensor.sizes().end(), mix);
  std::for_each(tensor.strides().begin(), tensor.strides().end(), mix);
  return {address, layout};
}

bool ProgramCall::has_non_finite_number() const {
  const auto is_number = [](const c10::IValue& value) {
    return value.isScalar() && !value.isComplexDouble() && !std::isfinite(value.toScalar().toDouble());
  };
  const auto is_wrapped = [](const Input& input) {
    at::Tensor flag;
    return input.tensor.unsafeGetTensorImpl()->is_wrapped_number() && !is_finite(input.tensor, flag);
  };
  return std::any_of(arguments.begin(), arguments.end(), is_number) ||
         std::any_of(inputs.begin(), inputs.end(), is_wrapped);
}

at::Tensor ProgramCall::found_inf() const {
  const std::optional<int> index = op.schema().argumentIndexWithName("found_inf");
  return index && arguments[*index].isTensor() ? arguments[*index].toTensor() : at::Tensor();
}

Input::Input(const at::Tensor& given)
    : tensor(detached(given)), key(key_of(given)), version(version_of(given)), bytes(bytes_of(given)) {}

bool Input::is_as_given() const {
  return version == version_of(tensor) && bytes == bytes_of(tensor);
}

std::vector<at::Tensor> ProgramCall::run(
    const std::vector<at::Tensor>& with, const autocast::PolicyPointer& policy, bool is_wide) const {
  const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
  const size_t depth = autocast::depth();
  autocast::Region entered = region;
  entered.enabled &= !is_wide;
  autocast::enter({autocast::Layer::over, policy, entered, scope}, nullptr);
  const auto left = c10::make_scope_exit([&] { autocast::leave_to(depth); });
  torch::jit::Stack stack = arguments;
  std::vector<at::Tensor> made;
  size_t next_input = 0;
  for (size_t index = 0; index < stack.size(); ++index) {
    const c10::Argument& argument = op.schema().arguments()[index];
    const auto* alias = argument.alias_info();
    if (is_wide && is_lower_dtype(stack[index], argument)) {
      stack[index] = static_cast<int64_t>(at::kFloat);
    }
    replace_tensors(stack[index], [&](const at::Tensor&) {
      const at::Tensor& tensor = with.at(next_input++);
      if (alias != nullptr && alias->isWrite()) {
        made.push_back(tensor);
      }
      return tensor;
    });
  }
  op.callBoxed(&stack);
  for (const c10::IValue& value : stack) {
    visit_tensors(value, [&](const at::Tensor& tensor) {
      const auto is_same = [&](const at::Tensor& other) { return other.is_same(tensor); };
      if (std::none_of(made.begin(), made.end(), is_same)) {
        made.push_back(tensor);
      }
    });
  }
  return made;
}

}  // namespace polycast::call_recorder
