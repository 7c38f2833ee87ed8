// What a category does to a call of an op, for any op: the kernel that is registered on an autocast key.
//
// The kernel takes its device from the dispatch key that it was reached through, so that one instantiation serves the
// op on every device.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "autocast/casts.h"
#include "autocast/table.h"

namespace polycast::autocast {

c10::DeviceType device_of(c10::DispatchKey autocast_key);
at::ScalarType lower_precision(c10::DeviceType device);

// One call through an autocast kernel: autocasting is off below it for the key that it came through.
class Call {
 public:
  explicit Call(c10::DispatchKeySet keys) : Call(autocast_key(keys)) {}

  const c10::DeviceType device;

 private:
  explicit Call(c10::DispatchKey key) : device(device_of(key)), below_autocast_(key) {}

  // Through the Python dispatcher, which tracers use, a kernel gets the keys above its own too.
  static c10::DispatchKey autocast_key(c10::DispatchKeySet keys) {
    return (keys & c10::autocast_dispatch_keyset).highestPriorityTypeId();
  }

  c10::impl::ExcludeDispatchKeyGuard below_autocast_;
};

template <class Op, Category category, class Target, class Schema = typename Op::schema>
struct Kernel;

template <class Op, Category category, class Target, class Return, class... Arguments>
struct Kernel<Op, category, Target, Return(Arguments...)> {
  static Return run(c10::DispatchKeySet keys, Arguments... arguments) {
    const Call call(keys);
    if constexpr (category == Category::lower_precision_fp) {
      const at::ScalarType to = lower_precision(call.device);
      return Op::call(cast(to, arguments, call.device)...);
    } else if constexpr (category == Category::fp32) {
      return Op::call(cast(at::kFloat, arguments, call.device)...);
    } else if constexpr (category == Category::promote) {
      const at::ScalarType to = widest_type(call.device, arguments...);
      return Op::call(cast(to, arguments, call.device)...);
    } else if constexpr (category == Category::fp32_set_opt_dtype) {
      // A dtype that is set for an ineligible input would interfere with the op's own promotion.
      if (!is_eligible(first_of(arguments...), call.device)) {
        return Op::call(arguments...);
      }
      return Op::call(set_absent_dtype(at::kFloat, arguments)...);
    } else {
      static_assert(category == Category::fp32_append_dtype);
      const at::Tensor& first = first_of(arguments...);
      return Target::call(arguments..., is_eligible(first, call.device) ? at::kFloat : first.scalar_type());
    }
  }
};

template <class Op, Category category, class Target = Op>
torch::CppFunction kernel() {
  return torch::CppFunction(TORCH_FN((Kernel<Op, category, Target>::run)));
}

}  // namespace polycast::autocast
