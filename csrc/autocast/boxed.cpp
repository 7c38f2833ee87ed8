// The boxed counterpart of `kernel.h`'s autocast kernel, for an op that has only stock rules or none in `policy.yaml`,
// or that has running statistics.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autocast/kernel.h"
#include "autocast/policy_scope.h"
#include "autocast/tensors_in.h"

namespace polycast::autocast {

namespace {

thread_local bool is_repeated = false;

class Boxed final : public c10::OperatorKernel {
 public:
  explicit Boxed(Slot slot) : slot_(slot) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    // Since PyTorch 2.15, calls of overloads and custom ops from Python bypass PyTorch's record functions. During a
    // recording, this kernel repeats such a call through the dispatcher, which runs the record functions.
    if (!std::exchange(is_repeated, false) && is_unobserved(slot_)) {
      is_repeated = true;
      op.callBoxed(stack);
      return;
    }
    const Call call(keys, slot_);
    if (call.is_unlisted()) {
      op.redispatchBoxed(call.keys_below(keys), stack);
      return;
    }
    const c10::impl::ExcludeDispatchKeyGuard below_autocast(call.key);
    const size_t count = op.schema().arguments().size();
    c10::IValue* const first = stack->data() + stack->size() - count;
    const std::vector<at::Tensor> own = updated_statistics(op.schema(), first);
    if (call.rule.category == Category::fp32_set_opt_dtype) {
      set_dtype(op.schema(), call, first);
    } else {
      cast_all(call, first, first + count);
    }
    const std::vector<at::Tensor> updated = updated_statistics(op.schema(), first);
    op.callBoxed(stack);
    for (size_t index = 0; index < own.size(); ++index) {
      if (!own[index].is_same(updated[index])) {
        own[index].copy_(updated[index]);
      }
    }
  }

 private:
  // Returns the running statistics that the call updates.
  static std::vector<at::Tensor> updated_statistics(const c10::FunctionSchema& schema, const c10::IValue* arguments) {
    std::vector<at::Tensor> found;
    for (size_t index = 0; index < schema.arguments().size(); ++index) {
      const c10::Argument& known = schema.arguments()[index];
      const bool is_statistic = known.name() == "running_mean" || known.name() == "running_var";
      if (is_statistic && arguments[index].isTensor()) {
        found.push_back(arguments[index].toTensor());
      }
      if ((known.name() == "training" || known.name() == "use_input_stats") && !arguments[index].toBool()) {
        return {};
      }
    }
    return found;
  }

  // Sets the first optional dtype to float32, if it is None and autocast would cast the first argument.
  static void set_dtype(const c10::FunctionSchema& schema, const Call& call, c10::IValue* arguments) {
    const std::vector<c10::Argument>& known = schema.arguments();
    c10::IValue& dtype = arguments[std::find_if(known.begin(), known.end(), is_optional_dtype) - known.begin()];
    if (dtype.isNone() && arguments[0].isTensor() && is_eligible(arguments[0].toTensor(), call.device_type)) {
      dtype = at::kFloat;
    }
  }

  static void cast_all(const Call& call, c10::IValue* first, c10::IValue* end) {
    at::ScalarType to = call.type();
    if (call.rule.category == Category::promote) {
      for (c10::IValue* value = first; value != end; ++value) {
        visit_tensors(*value, [&](const at::Tensor& tensor) { widen(to, tensor, call.device_type); });
      }
    }
    for (c10::IValue* value = first; value != end; ++value) {
      replace_tensors(*value, [&](const at::Tensor& tensor) { return cast(to, tensor, call.device_type); });
    }
  }

  Slot slot_;
};

}  // namespace

torch::CppFunction boxed_kernel(const std::string& name) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Boxed>(slot_of(name)));
}

}  // namespace polycast::autocast
