// The autocast kernel of an op in `policy.yaml`. It casts the arguments by the op's rule and runs the op.
//
// The kernel reads its device from the dispatch key, and its rule from the active policies and the built-in rules. One
// instantiation therefore serves the op on every device, under every policy.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <type_traits>

#include "autocast/builtin_policy.h"
#include "autocast/casts.h"
#include "autocast/rules.h"

namespace polycast::autocast {

// The device of `policy.yaml` that is installed on an autocast key. Of devices with the same key, only one is
// installed.
struct Installed {
  c10::DeviceType device_type;
  DeviceIndex device;
};

Installed installed_on(c10::DispatchKey autocast_key);
void set_installed(c10::DispatchKey autocast_key, DeviceIndex device);
at::ScalarType lower_precision(c10::DeviceType device_type);

// One call of an op, with its rule. The constructor raises for a banned op, and for a policy's rule in
// `torch.jit.trace`.
class Call {
 public:
  Call(c10::DispatchKeySet keys, Slot slot) : Call(autocast_key(keys), slot) {}

  const c10::DispatchKey key;
  const c10::DeviceType device_type;
  const Rule rule;

  // An unlisted op runs as if it had no kernel: autocast still applies to the ops that it runs. Any other category,
  // including `input_dtype`, covers the whole op: autocast is off for the ops that it runs.
  bool is_unlisted() const {
    return rule.category == Category::unlisted;
  }

  c10::DispatchKeySet keys_below(c10::DispatchKeySet keys) const {
    return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key);
  }

  // Returns the dtype that the arguments are cast to, or `Undefined` if they are not cast.
  template <class... Arguments>
  at::ScalarType type(const Arguments&... arguments) const {
    switch (rule.category) {
      case Category::lower_precision_fp:
      case Category::fp32:
        return rule.to == at::ScalarType::Undefined ? lower_precision(device_type) : rule.to;
      case Category::promote:
        return widest_type(device_type, arguments...);
      default:
        return at::ScalarType::Undefined;
    }
  }

 private:
  Call(c10::DispatchKey key, Slot slot) : Call(key, slot, installed_on(key)) {}
  Call(c10::DispatchKey key, Slot slot, Installed installed)
      : key(key), device_type(installed.device_type), rule(find_rule(slot, installed.device)) {}

  static Rule find_rule(Slot slot, DeviceIndex device);

  // PyTorch's tracers use the Python dispatcher, which also passes keys of a higher priority than the kernel's own key.
  static c10::DispatchKey autocast_key(c10::DispatchKeySet keys) {
    return (keys & c10::autocast_dispatch_keyset).highestPriorityTypeId();
  }
};

// `Target` is `Op`, except for a rule `fp32_append_dtype`. For this rule, `Target` is the overload of `Op` with an
// additional dtype argument.
template <class Op, class Target, class Schema = typename Op::schema>
struct Kernel;

template <class Op, class Target, class Return, class... Arguments>
struct Kernel<Op, Target, Return(Arguments...)> {
  static inline Slot slot = 0;

  static Return run(c10::DispatchKeySet keys, Arguments... arguments) {
    const Call call(keys, slot);
    if (call.is_unlisted()) {
      return Op::redispatch(call.keys_below(keys), arguments...);
    }
    const c10::impl::ExcludeDispatchKeyGuard below_autocast(call.key);
    if constexpr ((std::is_same_v<Arguments, std::optional<at::ScalarType>> || ...)) {
      // An ineligible input follows the op's own type promotion, which a dtype argument would override.
      if (call.rule.category == Category::fp32_set_opt_dtype && is_eligible(first_of(arguments...), call.device_type)) {
        return Op::call(set_absent_dtype(at::kFloat, arguments)...);
      }
    }
    if constexpr (!std::is_same_v<Op, Target>) {
      if (call.rule.category == Category::fp32_append_dtype) {
        const at::Tensor& first = first_of(arguments...);
        return Target::call(arguments..., is_eligible(first, call.device_type) ? at::kFloat : first.scalar_type());
      }
    }
    const at::ScalarType to = call.type(arguments...);
    return Op::call(cast(to, arguments, call.device_type)...);
  }
};

template <class Op, class Target = Op>
torch::CppFunction kernel(Slot slot) {
  Kernel<Op, Target>::slot = slot;
  return torch::CppFunction(TORCH_FN((Kernel<Op, Target>::run)));
}

// Returns the kernel of an op that has only stock rules or none in `policy.yaml`, or that has running statistics.
torch::CppFunction boxed_kernel(const std::string& name);

}  // namespace polycast::autocast
