#include "call_recorder/program_calls.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/SequenceNumber.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "autocast/tensors_in.h"
#include "call_recorder/recorder.h"
#include "process_state.h"

namespace polycast::call_recorder {

namespace {

struct Holding {
  std::mutex mutex;
  std::vector<std::shared_ptr<ProgramCall>> calls;
  std::set<const void*> weights;
  // Another thread may still call the function when the recording stops, so `std::atomic_load` reads the pointer.
  std::shared_ptr<const OnWrite> on_write;
  std::atomic<bool> is_on{false};
  std::atomic<bool> copies{false};
  std::atomic<bool> in_step{false};
};

Holding& holding() {
  return process_state<Holding>();
}

thread_local uint64_t last_number = 0;

const c10::DispatchKeySet wrappers{
    c10::DispatchKey::Python,
    c10::DispatchKey::FuncTorchBatched,
    c10::DispatchKey::FuncTorchGradWrapper,
    c10::DispatchKey::NestedTensor};

// The keys of the program's dispatch modes and regions, which do not apply to the calls of the recorder itself.
const c10::DispatchKeySet not_the_programs =
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}) |
    c10::autocast_dispatch_keyset;

void note_node(ProgramCall& call) {
  call.task = torch::autograd::get_current_graph_task_id();
  call.weight = nullptr;
  call.thread = at::RecordFunction::currentThreadId();
  if (call.task == -1 || call.module != -1) {  // Backward runs the forward of a module again, as in checkpointing.
    call.node = at::sequence_number::peek();
    return;
  }
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) {
    call.node = no_node;
    return;
  }
  call.node = node->sequence_nr();
  call.thread = node->thread_id();
  if (const auto* adds = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get())) {
    call.weight = adds->variable.unsafeGetTensorImpl();
  } else if (
      const std::string name = node->name(); name.size() > 8 && name.compare(name.size() - 8, 8, "Backward") == 0) {
    call.function = name;  // PyTorch's own nodes have names such as `MulBackward0`.
  }
}

autocast::Region region_of(const std::vector<Input>& inputs) {
  c10::DeviceType device = c10::kCPU;
  for (const Input& input : inputs) {
    const c10::DeviceType type = input.tensor.device().type();
    device = type != c10::kCPU && at::autocast::is_autocast_available(type) ? type : device;
  }
  return {device, at::autocast::get_autocast_dtype(device), at::autocast::is_autocast_enabled(device), false};
}

bool is_wrapped(c10::ArrayRef<c10::IValue> values) {
  bool found = false;
  for (const c10::IValue& value : values) {
    visit_tensors(value, [&](const at::Tensor& tensor) { found |= tensor.key_set().has_any(wrappers); });
  }
  return found;
}

// Returns whether a call copies from a device and may return before the copy ends.
bool is_non_blocking(const ProgramCall& call) {
  const std::optional<int> index = call.op.schema().argumentIndexWithName("non_blocking");
  const auto is_on_device = [](const Input& input) { return !input.tensor.is_cpu(); };
  return index && call.arguments[*index].isBool() && call.arguments[*index].toBool() &&
         std::any_of(call.inputs.begin(), call.inputs.end(), is_on_device);
}

}  // namespace

std::unique_ptr<Running> begin_program_call(const at::RecordFunction& function, const c10::OperatorHandle& op) {
  Holding& state = holding();
  const c10::FunctionSchema& schema = op.schema();
  const c10::ArrayRef<c10::IValue> given = last_of(function.inputs(), function.num_inputs());
  if (Running::exists || !state.is_on || schema.arguments().size() != given.size() || is_wrapped(given) ||
      c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) {
    return nullptr;
  }
  auto running = std::make_unique<Running>();
  running->call = std::make_shared<ProgramCall>(ProgramCall{op});
  ProgramCall& call = *running->call;
  const bool is_mutable = schema.is_mutable();
  bool writes_weight = false;
  call.arguments = given.vec();
  for (size_t index = 0; index < given.size(); ++index) {
    const auto* alias = schema.arguments()[index].alias_info();
    const bool is_written = is_mutable && alias != nullptr && alias->isWrite();
    replace_tensors(call.arguments[index], [&](const at::Tensor& tensor) {
      if (is_written) {
        running->written.push_back(tensor);
        writes_weight |= state.weights.count(memory_of(tensor)) != 0;
      }
      return call.inputs.emplace_back(tensor).tensor;
    });
  }
  call.in_step = state.in_step;
  call.module = current_module;
  note_node(call);
  call.region = region_of(call.inputs);
  call.scope = autocast::share_scope_in_force();
  const std::string& name = op.operator_name().name;
  const bool is_update = is_mutable && (name == "aten::_amp_update_scale_" || name == "polycast::update_scale_");
  if (is_update || (writes_weight && !call.in_step && call.task == -1)) {
    if (const auto on_write = std::atomic_load(&state.on_write)) {
      (*on_write)(is_update ? call.found_inf() : at::Tensor());
    }
  }
  return running;
}

void end_program_call(Running& running, const at::RecordFunction& function) {
  ProgramCall& call = *running.call;
  call.first = std::exchange(last_number, next_order);
  call.last = last_number;
  const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard unwrapped(not_the_programs);
  const std::string& name = call.op.operator_name().name;
  const bool is_empty = name.rfind("aten::empty", 0) == 0 || name.rfind("aten::new_empty", 0) == 0;
  const bool may_be_unfinished = is_non_blocking(call);
  const auto add = [&](const at::Tensor& tensor, bool is_written) {
    Output output{key_of(tensor), WeakMemory::reclaim_copy(memory_of(tensor)), tensor.scalar_type(), is_written};
    const auto is_same = [&](const Output& other) { return other.key == output.key; };
    if (std::any_of(call.outputs.begin(), call.outputs.end(), is_same)) {
      return;
    }
    const auto shares = [&](const Input& input) { return input.key.first == output.key.first; };
    output.is_view = !is_written && std::any_of(call.inputs.begin(), call.inputs.end(), shares);
    const bool has_no_values = output.is_view || is_empty || (may_be_unfinished && tensor.is_cpu());
    output.is_finite = has_no_values || is_finite(tensor, output.flag);
    if (holding().copies && !has_no_values && !tensor.key_set().has_any(wrappers)) {
      output.copy = tensor.detach().clone();
    }
    call.outputs.push_back(std::move(output));
  };
  for (const at::Tensor& tensor : running.written) {
    add(tensor, true);
  }
  for (const c10::IValue& value : last_of(function.outputs(), function.num_outputs())) {
    visit_tensors(value, [&](const at::Tensor& tensor) { add(tensor, false); });
  }
  if (!call.inputs.empty() || !call.outputs.empty()) {
    const std::lock_guard<std::mutex> lock(holding().mutex);
    holding().calls.push_back(std::move(running.call));
  }
}

void start_holding(const std::vector<at::Tensor>& weights, OnWrite on_write, bool copies) {
  Holding& state = holding();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.calls.clear();
  state.weights.clear();
  for (const at::Tensor& weight : weights) {
    state.weights.insert(memory_of(weight));
  }
  std::atomic_store(&state.on_write, std::make_shared<const OnWrite>(std::move(on_write)));
  state.copies = copies;
  state.in_step = false;
  state.is_on = true;
}

void stop_holding() {
  holding().is_on = false;
  std::atomic_store(&holding().on_write, {});  // The function references the model.
}

void pause_holding(bool is_paused) {
  holding().is_on = !is_paused;
}

void set_step(bool is_step) {
  holding().in_step = is_step;
}

bool any_non_finite(size_t first) {
  const std::vector<std::shared_ptr<ProgramCall>> calls = held_calls();
  std::unordered_map<c10::Device, std::pair<std::vector<at::Tensor>, std::vector<Output*>>> unread;
  bool found = false;
  for (size_t index = first; index < calls.size(); ++index) {
    for (Output& output : calls[index]->outputs) {
      found |= !output.is_finite;
      if (output.flag.defined()) {
        auto& [flags, outputs] = unread[output.flag.device()];
        flags.push_back(std::exchange(output.flag, at::Tensor()));
        outputs.push_back(&output);
      }
    }
  }
  const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
  const c10::impl::ExcludeDispatchKeyGuard unwrapped(not_the_programs);
  for (const auto& [device, pair] : unread) {
    if (at::isAccelerator(device.type())) {
      at::accelerator::synchronizeDevice(device.index());  // Another stream, such as a prefetcher's, may set a flag.
    }
    const at::Tensor read = at::stack(pair.first).cpu();
    for (size_t place = 0; place < pair.second.size(); ++place) {
      pair.second[place]->is_finite = read.const_data_ptr<bool>()[place];
      found |= !pair.second[place]->is_finite;
    }
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

void drop_calls() {
  take();
  std::vector<std::shared_ptr<ProgramCall>> dropped;  // Freeing the calls can run Python, so they outlive the lock.
  const std::lock_guard<std::mutex> lock(holding().mutex);
  dropped.swap(holding().calls);
}

}  // namespace polycast::call_recorder
