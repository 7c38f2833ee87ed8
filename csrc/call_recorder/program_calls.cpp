#include "call_recorder/program_calls.h"

#include <ATen/SequenceNumber.h>
#include <ATen/ops/stack.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>

#include "call_recorder/held_tensors.h"
#include "call_recorder/recorder.h"

namespace polycast::call_recorder {

namespace {

struct Holding {
  std::mutex mutex;
  std::vector<std::shared_ptr<ProgramCall>> calls;
  std::set<const void*> weights;
  OnWrite on_write;
  std::atomic<bool> copies{false};
  std::atomic<bool> is_paused{false};
  std::atomic<bool> in_step{false};
  std::atomic<at::CallbackHandle> handle{at::INVALID_CALLBACK_HANDLE};
};

Holding& holding() {
  static Holding* const instance = new Holding;  // never destroyed: other threads may run to the very end
  return *instance;
}

thread_local at::CallbackHandle held_by_thread = at::INVALID_CALLBACK_HANDLE;
thread_local bool is_within = false;  // a call that is held
thread_local uint64_t last_number = 0;

const c10::DispatchKeySet wrappers{
    c10::DispatchKey::Python,
    c10::DispatchKey::FuncTorchBatched,
    c10::DispatchKey::FuncTorchGradWrapper,
    c10::DispatchKey::NestedTensor};

bool only_traces() {
  using Mode = c10::impl::TorchDispatchModeKey;
  const auto is_on = [](Mode mode) { return c10::impl::TorchDispatchModeTLS::get_mode(mode).has_value(); };
  return c10::impl::TorchDispatchModeTLS::any_modes_set() &&
         (is_on(Mode::FAKE) || is_on(Mode::PROXY) || is_on(Mode::FUNCTIONAL));
}

at::Tensor detached(const at::Tensor& tensor) {
  // A dispatch mode, which would run the detach in Python, may raise there, and the call would be lost.
  const c10::impl::ExcludeDispatchKeyGuard no_mode(c10::DispatchKey::Python);
  auto* const impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(
      impl->is_inference() ? c10::VariableVersion() : impl->version_counter(),
      /*allow_tensor_metadata_change=*/true));
}

struct Running final : at::ObserverContext {
  std::shared_ptr<ProgramCall> call;
  std::vector<at::Tensor> written;
};

void note_node(ProgramCall& call) {
  call.task = torch::autograd::get_current_graph_task_id();
  call.weight = nullptr;
  if (call.task == -1) {
    call.node = at::sequence_number::peek();
    return;
  }
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) {
    call.node = no_node;
    return;
  }
  call.node = node->sequence_nr();
  if (const auto* adds = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get())) {
    call.weight = adds->variable.unsafeGetTensorImpl();
  } else if (
      const std::string name = node->name(); name.size() > 8 && name.compare(name.size() - 8, 8, "Backward") == 0) {
    call.function = name;  // torch's own nodes end in a digit
  }
}

autocast::Region region_of(const std::vector<Input>& inputs) {
  c10::DeviceType device = c10::kCPU;
  for (const Input& input : inputs) {
    if (input.tensor.device().type() != c10::kCPU) {
      device = input.tensor.device().type();
    }
  }
  if (!at::autocast::is_autocast_available(device)) {
    return {c10::kCPU, std::nullopt, false, false};
  }
  return {device, at::autocast::get_autocast_dtype(device), at::autocast::is_autocast_enabled(device), false};
}

// Removes the callback of a holding that this thread started and another one has stopped.
void remove_ended() {
  if (held_by_thread != at::INVALID_CALLBACK_HANDLE && held_by_thread != holding().handle) {
    at::removeCallback(std::exchange(held_by_thread, at::INVALID_CALLBACK_HANDLE));
  }
}

std::unique_ptr<at::ObserverContext> hold_start(const at::RecordFunction& function) {
  Holding& state = holding();
  remove_ended();
  if (is_within || state.is_paused || state.handle == at::INVALID_CALLBACK_HANDLE || !function.operator_name() ||
      only_traces() || c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) {
    return nullptr;
  }
  const auto op = c10::Dispatcher::singleton().findOp(*function.operator_name());
  const auto given = function.inputs();
  if (!op || !op->hasSchema() || op->schema().arguments().size() != function.num_inputs()) {
    return nullptr;
  }
  auto running = std::make_unique<Running>();
  running->call = std::make_shared<ProgramCall>(ProgramCall{*op});
  ProgramCall& call = *running->call;
  const bool is_mutable = op->schema().is_mutable();
  bool is_plain = true;
  bool writes_weight = false;
  const size_t offset = given.size() - function.num_inputs();  // a boxed call shows its whole stack
  call.arguments.reserve(function.num_inputs());
  for (size_t index = 0; index < function.num_inputs(); ++index) {
    c10::IValue value = given[offset + index];
    const auto* alias = op->schema().arguments()[index].alias_info();
    const bool is_written = is_mutable && alias != nullptr && alias->isWrite();
    replace_tensors(value, [&](c10::IValue& item) {
      const at::Tensor& tensor = item.toTensor();
      is_plain &= !tensor.key_set().has_any(wrappers) && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
      if (!is_plain) {
        return;
      }
      if (is_written) {
        running->written.push_back(tensor);
        writes_weight |= tensor.has_storage() && state.weights.count(tensor.storage().unsafeGetStorageImpl()) != 0;
      }
      call.inputs.push_back({detached(tensor), key_of(tensor), version_of(tensor), bytes_of(tensor)});
      item = call.inputs.back().tensor;
    });
    call.arguments.push_back(std::move(value));
  }
  if (!is_plain) {
    return nullptr;
  }
  note_node(call);
  call.in_step = state.in_step;
  call.module = current_module();
  call.region = region_of(call.inputs);
  call.scope = autocast::share_scope_in_force();
  const std::string& name = op->operator_name().name;
  const bool is_update = is_mutable && (name == "aten::_amp_update_scale_" || name == "polycast::update_scale_");
  if (is_update || (writes_weight && !call.in_step && call.task == -1)) {
    state.on_write(is_update ? call.found_inf() : std::nullopt);
  }
  is_within = true;
  return running;
}

void hold_end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) {
    return;
  }
  is_within = false;
  auto& running = static_cast<Running&>(*context);
  ProgramCall& call = *running.call;
  call.first = std::exchange(last_number, next_order());
  call.last = last_number;
  const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard unwrapped(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}) |
      c10::autocast_dispatch_keyset);
  const std::string& name = call.op.operator_name().name;
  const bool is_empty = name.rfind("aten::empty", 0) == 0 || name.rfind("aten::new_empty", 0) == 0;
  const auto add = [&](const at::Tensor& tensor, bool is_written) {
    Output output{key_of(tensor), tensor.scalar_type(), is_written};
    if (tensor.has_storage()) {
      output.memory.emplace(tensor.storage().getWeakStorageImpl());
    } else {
      output.tensor.emplace(tensor.getIntrusivePtr());
    }
    const auto is_same = [&](const Output& other) { return other.key == output.key; };
    if (std::any_of(call.outputs.begin(), call.outputs.end(), is_same)) {
      return;
    }
    const auto shares = [&](const Input& input) { return input.key.first == output.key.first; };
    output.is_view = !is_written && std::any_of(call.inputs.begin(), call.inputs.end(), shares);
    output.is_finite = output.is_view || is_empty || is_finite(tensor, output.flag);
    if (holding().copies && !output.is_view && !is_empty && !tensor.key_set().has_any(wrappers)) {
      output.copy = tensor.detach().clone();
    }
    call.outputs.push_back(std::move(output));
  };
  for (const at::Tensor& tensor : running.written) {
    add(tensor, true);
  }
  const auto& returned = function.outputs();
  for (size_t index = returned.size() - std::min(function.num_outputs(), returned.size()); index < returned.size();
       ++index) {
    c10::IValue value = returned[index];
    replace_tensors(value, [&](c10::IValue& item) { add(item.toTensor(), false); });
  }
  if (!call.inputs.empty() || !call.outputs.empty()) {
    const std::lock_guard<std::mutex> lock(holding().mutex);
    holding().calls.push_back(std::move(running.call));
  }
}

}  // namespace

void start_holding(const std::vector<at::Tensor>& weights, OnWrite on_write, bool copies) {
  remove_ended();
  Holding& state = holding();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.calls.clear();
  state.weights.clear();
  for (const at::Tensor& weight : weights) {
    if (weight.has_storage()) {
      state.weights.insert(weight.storage().unsafeGetStorageImpl());
    }
  }
  state.on_write = std::move(on_write);
  state.copies = copies;
  state.is_paused = state.in_step = false;
  held_by_thread = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&hold_start, &hold_end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  state.handle = held_by_thread;
}

void stop_holding() {
  holding().handle = at::INVALID_CALLBACK_HANDLE;
  remove_ended();
}

void pause_holding(bool is_paused) {
  holding().is_paused = is_paused;
}

void set_step(bool is_step) {
  holding().in_step = is_step;
}

bool any_non_finite(size_t first) {
  const std::vector<std::shared_ptr<ProgramCall>> calls = held_calls();
  std::vector<std::pair<at::Tensor, Output*>> unread;
  bool found = false;
  for (size_t index = std::min(first, calls.size()); index < calls.size(); ++index) {
    for (Output& output : calls[index]->outputs) {
      found |= !output.is_finite;
      if (output.flag.defined()) {
        unread.emplace_back(std::exchange(output.flag, at::Tensor()), &output);
      }
    }
  }
  const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
  while (!unread.empty()) {
    const c10::Device device = unread.front().first.device();
    const auto others = std::stable_partition(
        unread.begin(), unread.end(), [&](const auto& pair) { return pair.first.device() == device; });
    std::vector<at::Tensor> flags;
    std::transform(unread.begin(), others, std::back_inserter(flags), [](const auto& pair) { return pair.first; });
    const at::Tensor read = at::stack(flags).cpu();
    for (size_t place = 0; place < flags.size(); ++place) {
      unread[place].second->is_finite = read.const_data_ptr<bool>()[place];
      found |= !unread[place].second->is_finite;
    }
    unread.erase(unread.begin(), others);
  }
  return found;
}

size_t held_count() {
  const std::lock_guard<std::mutex> lock(holding().mutex);
  return holding().calls.size();
}

std::vector<std::shared_ptr<ProgramCall>> held_calls() {
  const std::lock_guard<std::mutex> lock(holding().mutex);
  return holding().calls;
}

void drop_calls(size_t first) {
  if (first >= held_count()) {
    take();
  }
  std::vector<std::shared_ptr<ProgramCall>> dropped;
  const std::lock_guard<std::mutex> lock(holding().mutex);
  auto& calls = holding().calls;
  const auto end = calls.begin() + static_cast<int64_t>(std::min(first, calls.size()));
  std::move(calls.begin(), end, std::back_inserter(dropped));
  calls.erase(calls.begin(), end);
}

}  // namespace polycast::call_recorder
