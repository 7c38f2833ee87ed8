#include "call_recorder/recorder.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
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
#include "autocast/rule_observer.h"

namespace polycast::call_recorder {

namespace {

struct State {
  std::mutex mutex;
  std::vector<Call> ended;
  // Calls that another thread begins may still use it when the recording stops: std::atomic_load reads it.
  std::shared_ptr<const std::function<std::string()>> source;
  std::string recorder;  // of the recording that runs; empty while none does
  size_t limit = 0;
  std::atomic<size_t> room{0};  // for calls
  std::atomic<uint64_t> next{0};
  std::atomic<at::CallbackHandle> handle{at::INVALID_CALLBACK_HANDLE};  // of the recording that runs
};

State& state() {
  // Never destroyed: other threads may run to the very end.
  static State* const instance = new State;
  return *instance;
}

thread_local int64_t module_of_thread = -1;
// The callback of the last recording that this thread started. Only the thread that added a callback can remove it.
thread_local at::CallbackHandle handle_of_thread = at::INVALID_CALLBACK_HANDLE;

// Removes the callback if another thread has stopped its recording. Returns whether no recording runs here.
bool has_been_stopped() {
  if (handle_of_thread != at::INVALID_CALLBACK_HANDLE && handle_of_thread != state().handle) {
    at::removeCallback(std::exchange(handle_of_thread, at::INVALID_CALLBACK_HANDLE));
    return true;
  }
  return state().handle == at::INVALID_CALLBACK_HANDLE;
}

template <class Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    // A number among the arguments is wrapped in a tensor for the dispatcher.
    if (value.toTensor().defined() && !value.toTensor().unsafeGetTensorImpl()->is_wrapped_number()) {
      visit(value.toTensor());
    }
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& item : value.toListRef()) {
      visit_tensors(item, visit);
    }
  }
}

// Visits the last values: a boxed call shows its whole stack, which holds values of the calls around it, too.
template <class Visit>
void visit_last(c10::ArrayRef<c10::IValue> values, size_t count, const Visit& visit) {
  for (const c10::IValue& value : values.slice(values.size() - std::min(count, values.size()))) {
    visit_tensors(value, visit);
  }
}

template <class Visit>
void visit_inputs(const at::RecordFunction& function, const Visit& visit) {
  visit_last(function.inputs(), function.num_inputs(), visit);
}

struct Argument {
  const c10::TensorImpl* tensor;
  int64_t elements;
};

// A call while it runs.
struct Frame final : at::ObserverContext {
  enum class Kind : uint8_t {
    intercepted,  // by autocast
    cast,         // of an argument of the parent
    arrival,      // of the parent below autocast
  };

  Frame(Kind kind, Frame* parent) : kind(kind), parent(parent) {}

  const Kind kind;
  Frame* const parent;
  Call call{};
  std::vector<Argument> arguments;
  std::vector<const c10::TensorImpl*> made;  // the tensors that were cast for the call
  bool composite = false;
  bool has_recorded = false;   // whether calls within it are recorded
  bool within_kernel = false;  // whether a device's kernel made it

  // Whether calls within it are made by a device's kernel. Ask once its own kernel runs, which decides `taken`.
  bool holds_kernel() const {
    return kind == Kind::intercepted && (within_kernel || !(call.taken || composite));
  }
};

thread_local Frame* innermost = nullptr;

// Whether a call has tensors with symbolic sizes, as when a compiler traces it.
bool is_symbolic(const at::RecordFunction& function) {
  bool found = false;
  visit_inputs(
      function, [&](const at::Tensor& tensor) { found |= tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides(); });
  return found;
}

c10::DispatchKeySet autocast_keys_of(const at::RecordFunction& function) {
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  c10::DispatchKeySet keys;
  visit_inputs(function, [&](const at::Tensor& tensor) { keys = keys | tensor.key_set(); });
  return ((keys | local.included_) - local.excluded_) & c10::autocast_dispatch_keyset;
}

bool is_cast(const c10::OperatorName& name) {
  return name.name == "aten::to" || name.name == "aten::_to_copy";
}

std::unique_ptr<Frame> intercept(const at::RecordFunction& function, c10::DispatchKey key) {
  auto frame = std::make_unique<Frame>(Frame::Kind::intercepted, innermost);
  const c10::OperatorName name = *function.operator_name();
  const std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findOp(name);
  Call& call = frame->call;
  call.name = c10::toString(name);
  call.device = autocast::installed_on(key).device_type;
  call.taken = op && op->hasKernelForDispatchKey(key);  // see follow_rule
  frame->within_kernel = innermost != nullptr && innermost->holds_kernel();
  if (frame->within_kernel && !call.taken) {
    return nullptr;
  }
  frame->composite = op && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  call.order = state().next++;
  call.module = module_of_thread;
  call.backward = torch::autograd::get_current_graph_task_id() != -1;
  visit_inputs(function, [&](const at::Tensor& tensor) {
    call.given.push_back(tensor.scalar_type());
    frame->arguments.push_back({tensor.unsafeGetTensorImpl(), tensor.numel()});
  });
  if (const auto source = std::atomic_load(&state().source)) {
    call.source = (*source)();
  }
  return frame;
}

// Whether the innermost call is of an overload whose kernel has not begun.
bool has_begun(autocast::Slot slot) {
  return innermost != nullptr && innermost->kind == Frame::Kind::intercepted && !innermost->call.rule &&
         autocast::slot_of(innermost->call.name) == slot;
}

// Stores the rule that a kernel of polycast's follows in the innermost call, unless that is another operator's.
void follow_rule(autocast::Slot slot, const autocast::Found& found) {
  if (!has_begun(slot)) {
    return;
  }
  Call& call = innermost->call;
  call.rule = found.rule;
  call.taken = found.rule.category != autocast::Category::unlisted;
  if (found.spec != nullptr) {
    call.origin = std::string(autocast::name_of(found.layer)) + ": " + found.spec->origin;
  }
}

// Follows a call with autocast off: a cast for the innermost call, or its arrival.
std::unique_ptr<Frame> follow(const at::RecordFunction& function) {
  if (innermost == nullptr || innermost->kind != Frame::Kind::intercepted || !innermost->call.taken ||
      !innermost->call.arrived.empty()) {
    return nullptr;
  }
  const c10::OperatorName name = *function.operator_name();
  if (is_cast(name) && !function.inputs().empty() && function.inputs()[0].isTensor()) {
    auto frame = std::make_unique<Frame>(Frame::Kind::cast, innermost);
    const at::Tensor& tensor = function.inputs()[0].toTensor();
    frame->arguments.push_back({tensor.unsafeGetTensorImpl(), tensor.numel()});
    return frame;
  }
  const std::string& caller = innermost->call.name;
  if (name.name != caller.substr(0, caller.find('.'))) {
    return nullptr;
  }
  visit_inputs(function, [](const at::Tensor& tensor) { innermost->call.arrived.push_back(tensor.scalar_type()); });
  return std::make_unique<Frame>(Frame::Kind::arrival, innermost);
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  if (has_been_stopped() || !function.operator_name() || (innermost == nullptr && state().room == 0) ||
      c10::impl::TorchDispatchModeTLS::get_mode(c10::impl::TorchDispatchModeKey::FAKE).has_value() ||
      is_symbolic(function)) {
    return nullptr;  // a compiler only traces such calls
  }
  const c10::DispatchKeySet keys = autocast_keys_of(function);
  std::unique_ptr<Frame> frame = keys.empty() ? follow(function) : intercept(function, keys.highestPriorityTypeId());
  if (frame) {
    innermost = frame.get();
  }
  return frame;
}

constexpr autocast::RuleObserver rule_observer{&follow_rule, &has_begun};

void find_casts(Frame& frame) {
  Call& call = frame.call;
  for (size_t index = 0; index < std::min(call.given.size(), call.arrived.size()); ++index) {
    if (call.given[index] == call.arrived[index]) {
      continue;
    }
    const Argument& argument = frame.arguments[index];
    const auto made = std::find(frame.made.begin(), frame.made.end(), argument.tensor);
    const bool reused = made == frame.made.end();
    if (!reused) {
      frame.made.erase(made);
    }
    call.casts.push_back({call.given[index], call.arrived[index], argument.elements, argument.tensor, reused});
  }
}

// See Note [Which calls are recorded].
bool is_recorded(const Frame& frame) {
  const Call& call = frame.call;
  if (frame.within_kernel && !call.taken) {
    return false;
  }
  return !call.arrived.empty() || !frame.has_recorded || !(call.taken || frame.composite);
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) {
    return;
  }
  auto& frame = static_cast<Frame&>(*context);
  innermost = frame.parent;
  if (frame.kind == Frame::Kind::cast) {
    frame.parent->made.push_back(frame.arguments[0].tensor);
  }
  if (frame.kind != Frame::Kind::intercepted) {
    return;
  }
  const bool recorded = is_recorded(frame);
  if (frame.parent != nullptr) {
    frame.parent->has_recorded |= recorded || frame.has_recorded;
  }
  if (!recorded) {
    return;
  }
  visit_last(function.outputs(), function.num_outputs(), [&](const at::Tensor& tensor) {
    frame.call.returned.push_back(tensor.scalar_type());
  });
  find_casts(frame);
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().ended.push_back(std::move(frame.call));
  state().room = state().room == 0 ? 0 : state().room - 1;
}

}  // namespace

void start(std::string recorder, std::function<std::string()> source, size_t limit) {
  has_been_stopped();
  const std::lock_guard<std::mutex> lock(state().mutex);
  TORCH_CHECK(
      state().recorder.empty(),
      recorder,
      " cannot begin while ",
      state().recorder,
      " runs, since a process records its calls for one of them at a time; leave the ",
      state().recorder,
      " first");
  module_of_thread = -1;
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

void set_module(int64_t module) {
  module_of_thread = module;
}

int64_t current_module() {
  return module_of_thread;
}

uint64_t next_order() {
  return state().next;
}

}  // namespace polycast::call_recorder
