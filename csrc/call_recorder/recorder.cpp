#include "call_recorder/recorder.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "autocast/kernel.h"
#include "autocast/policy_scope.h"
#include "autocast/tensors_in.h"
#include "call_recorder/program_calls.h"
#include "cast_cache/cache.h"
#include "process_state.h"

namespace polycast::call_recorder {

namespace {

struct State {
  std::mutex mutex;
  std::vector<Call> ended;
  std::string recorder;  // The name of the recording tool, or empty.
  size_t limit = 0;
  // Another thread may still call the function when the recording stops, so `std::atomic_load` reads the pointer.
  std::shared_ptr<const std::function<std::string()>> source;
  std::atomic<size_t> room{0};  // The number of calls that can be recorded before the limit.
  std::atomic<at::CallbackHandle> handle{at::INVALID_CALLBACK_HANDLE};  // The callback of the recording that runs.
};

State& state() {
  return process_state<State>();
}

// The callback of the last recording that this thread started. Only the thread that added a callback can remove it.
thread_local at::CallbackHandle handle_of_thread = at::INVALID_CALLBACK_HANDLE;

// Removes this thread's callback if its recording was stopped. Returns true in this case, or if no recording runs.
bool has_been_stopped() {
  if (handle_of_thread != at::INVALID_CALLBACK_HANDLE && handle_of_thread != state().handle) {
    at::removeCallback(std::exchange(handle_of_thread, at::INVALID_CALLBACK_HANDLE));
    return true;
  }
  return state().handle == at::INVALID_CALLBACK_HANDLE;
}

template <class Visit>
void visit_inputs(const at::RecordFunction& function, const Visit& visit) {
  for (const c10::IValue& value : last_of(function.inputs(), function.num_inputs())) {
    visit_tensors(value, [&](const at::Tensor& tensor) {
      // PyTorch wraps a number in a tensor if the op expects a tensor.
      if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
        visit(tensor);
      }
    });
  }
}

uintptr_t address_of(const at::Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl());
}

struct Frame;
thread_local Frame* innermost = nullptr;

// A running call that autocast intercepts.
struct Frame {
  Frame() : parent(innermost) {
    innermost = this;
  }
  ~Frame() {
    innermost = parent;
  }

  Frame* const parent;
  Call call{};
  bool composite = false;
  bool has_rule = false;       // A polycast kernel has reported the call's rule.
  bool has_recorded = false;   // A call within this one was recorded.
  bool within_kernel = false;  // A device's kernel made the call.

  // Returns whether a device's kernel makes the calls within this one. `call.rule` is final once the op's kernel runs.
  bool holds_kernel() const {
    return within_kernel || !(call.is_taken() || composite);
  }
};

// The recorder's data about a running call.
struct Observed final : at::ObserverContext {
  std::unique_ptr<Running> program_call;  // Null for a call that is not stored.
  std::unique_ptr<Frame> frame;
};

std::unique_ptr<Frame> intercept(
    const at::RecordFunction& function, const c10::OperatorHandle& op, c10::DispatchKey key) {
  const bool taken = op.hasKernelForDispatchKey(key);
  const bool within_kernel = innermost != nullptr && innermost->holds_kernel();
  if (within_kernel && !taken) {
    return nullptr;
  }
  auto frame = std::make_unique<Frame>();
  Call& call = frame->call;
  call.name = c10::toString(op.operator_name());
  call.device = autocast::installed_on(key).device_type;
  // A polycast kernel reports its rule to `follow_rule`. PyTorch's kernels report none.
  call.rule.category = taken ? autocast::Category::stock : autocast::Category::unlisted;
  frame->within_kernel = within_kernel;
  frame->composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  call.order = next_order++;
  call.module = current_module;
  call.backward = torch::autograd::get_current_graph_task_id() != -1;
  visit_inputs(function, [&](const at::Tensor& tensor) {
    call.given.emplace_back(tensor.scalar_type(), tensor.numel(), address_of(tensor));
  });
  if (const auto source = std::atomic_load(&state().source)) {
    call.source = (*source)();
  }
  return frame;
}

// Returns whether the innermost call is of this overload, and its kernel has not reported a rule.
bool has_begun(autocast::Slot slot) {
  return innermost != nullptr && !innermost->has_rule && autocast::slot_of(innermost->call.name) == slot;
}

// Stores the rule that polycast's kernel applies. If PyTorch did not report the kernel's call, the innermost call is of
// another overload and stays unchanged.
void follow_rule(autocast::Slot slot, const autocast::Found& found) {
  if (!has_begun(slot)) {
    return;
  }
  Call& call = innermost->call;
  call.rule = found.rule;
  innermost->has_rule = true;
  if (found.spec != nullptr) {
    call.origin = std::string(autocast::name_of(found.layer)) + ": " + found.spec->origin;
  }
}

// Adds a call with autocast off to the innermost call: the cast of an argument, or the redispatch.
void follow(const at::RecordFunction& function, const std::string& op) {
  if (innermost == nullptr || !innermost->call.is_taken() || !innermost->call.arrived.empty()) {
    return;
  }
  Call& caller = innermost->call;
  if (op == "aten::_to_copy") {
    visit_inputs(function, [&](const at::Tensor& tensor) { caller.made.push_back(address_of(tensor)); });
  } else if (op == caller.name.substr(0, caller.name.find('.'))) {
    visit_inputs(function, [&](const at::Tensor& tensor) { caller.arrived.push_back(tensor.scalar_type()); });
  }
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  if (has_been_stopped() || !function.operator_name() || cast_cache::only_traces()) {
    return nullptr;
  }
  const auto op = c10::Dispatcher::singleton().findSchema(*function.operator_name());
  bool is_symbolic = false;  // A compiler only traces a call with a tensor that has symbolic sizes.
  c10::DispatchKeySet keys;
  visit_inputs(function, [&](const at::Tensor& tensor) {
    is_symbolic |= tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
    keys = keys | tensor.key_set();
  });
  if (!op || is_symbolic) {
    return nullptr;
  }
  auto observed = std::make_unique<Observed>();
  observed->program_call = begin_program_call(function, *op);
  if (innermost != nullptr || state().room > 0) {
    keys = c10::impl::computeDispatchKeySet(keys, c10::autocast_dispatch_keyset);
    if (keys.empty()) {
      follow(function, op->operator_name().name);
    } else {
      observed->frame = intercept(function, *op, keys.highestPriorityTypeId());
    }
  }
  return observed->program_call || observed->frame ? std::move(observed) : nullptr;
}

constexpr autocast::RuleObserver rule_observer{&follow_rule, &has_begun};

// See Note [Which calls are recorded?].
bool is_recorded(const Frame& frame) {
  const Call& call = frame.call;
  if (frame.within_kernel && !call.is_taken()) {
    return false;
  }
  return !call.arrived.empty() || !frame.has_recorded || !(call.is_taken() || frame.composite);
}

void end(Frame& frame, const at::RecordFunction& function) {
  const bool recorded = is_recorded(frame);
  if (frame.parent != nullptr) {
    frame.parent->has_recorded |= recorded || frame.has_recorded;
  }
  if (!recorded) {
    return;
  }
  for (const c10::IValue& value : last_of(function.outputs(), function.num_outputs())) {
    visit_tensors(value, [&](const at::Tensor& tensor) { frame.call.returned.push_back(tensor.scalar_type()); });
  }
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().ended.push_back(std::move(frame.call));
  state().room = state().room == 0 ? 0 : state().room - 1;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* const observed = static_cast<Observed*>(context);
  if (observed != nullptr && observed->frame) {
    end(*observed->frame, function);
  }
  if (observed != nullptr && observed->program_call) {
    end_program_call(*observed->program_call, function);
  }
}

// Stops the recording in a forked process, where no code reads the calls. The forking thread may not have the GIL,
// so the Python function of the recording is not freed.
void stop_in_child() {
  state().handle = at::INVALID_CALLBACK_HANDLE;
  state().recorder.clear();
  autocast::set_rule_observer(nullptr);
  pause_holding(true);
}

}  // namespace

void start(std::string recorder, std::function<std::string()> source, size_t limit) {
  has_been_stopped();
  static const int registered = pthread_atfork(nullptr, nullptr, &stop_in_child);
  TORCH_CHECK(registered == 0, recorder, ": expected memory for a fork handler, got none; free some memory");
  const std::lock_guard<std::mutex> lock(state().mutex);
  TORCH_CHECK(
      state().recorder.empty(),
      recorder,
      ": ",
      state().recorder,
      " already records the calls of this process; end it first");
  current_module = -1;
  state().ended.clear();
  state().recorder = std::move(recorder);
  if (source) {
    std::atomic_store(&state().source, std::make_shared<const std::function<std::string()>>(std::move(source)));
  }
  state().room = state().limit = limit;
  autocast::set_rule_observer(&rule_observer);
  handle_of_thread = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&on_start, &on_end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  state().handle = handle_of_thread;
}

void stop() {
  stop_holding();
  drop_calls();
  autocast::set_rule_observer(nullptr);
  state().handle = at::INVALID_CALLBACK_HANDLE;
  has_been_stopped();
  const std::lock_guard<std::mutex> lock(state().mutex);
  std::atomic_store(&state().source, {});
  state().recorder.clear();
}

std::vector<Call> take() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  std::vector<Call> calls = std::exchange(state().ended, {});
  state().room = state().limit;
  std::sort(calls.begin(), calls.end(), [](const Call& one, const Call& other) { return one.order < other.order; });
  return calls;
}

}  // namespace polycast::call_recorder
