// Bindings of policies and scopes.
#include "bindings/bindings.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autocast/builtin_policy.h"
#include "autocast/policy_scope.h"
#include "autocast/registry.h"
#include "autocast/rules.h"

namespace py = pybind11;

// A cell of a policy's row. In Python it is a tuple that begins with the name of the rule and its source.
template <>
struct py::detail::type_caster<polycast::autocast::RuleSpec> {
  PYBIND11_TYPE_CASTER(polycast::autocast::RuleSpec, const_name("tuple[str, str]"));

  bool load(handle cell, bool /*convert*/) {
    value = {polycast::autocast::rule_named(cell[int_(0)].cast<std::string>()), cell[int_(1)].cast<std::string>()};
    return true;
  }

  static handle cast(const polycast::autocast::RuleSpec& spec, return_value_policy /*policy*/, handle /*parent*/) {
    return py::make_tuple(polycast::autocast::name_of(spec.rule), spec.origin).release();
  }
};

namespace polycast::bindings {

namespace {

using GuardPointer = std::shared_ptr<autocast::ScopeGuard>;
using OptionalType = std::optional<at::ScalarType>;
using autocast::PolicyPointer;
using autocast::ScopeGuard;
using autocast::ScopePointer;

// Returns the key of the row whose rule applies to an overload on a device, or `nullopt`.
std::optional<std::string> deciding_key(
    const autocast::Policy& policy, const std::string& overload, autocast::DeviceIndex device) {
  const auto* const row = policy.find_row(overload, device);
  return row == nullptr ? std::nullopt : std::optional(row->first);
}

// Returns, for each device, why the row's rule can cast no overload of the key, or "" if the rule can cast one.
std::vector<std::string> obstacles(const std::string& key, const std::vector<std::optional<std::string>>& row) {
  const std::vector<std::string> names = autocast::overloads_of(key);
  std::vector<std::string> reasons(row.size());
  for (size_t device = 0; device < row.size(); ++device) {
    for (const std::string& name : row[device] ? names : std::vector<std::string>{}) {
      const autocast::Category category = autocast::rule_named(*row[device]).category;
      std::string reason = autocast::obstacle(name, category, static_cast<autocast::DeviceIndex>(device));
      if (reason.empty()) {
        reasons[device].clear();
        break;
      }
      // The reason for a variant that writes is the least informative one.
      if (reasons[device].empty() || reasons[device].rfind("writes to", 0) == 0) {
        reasons[device] = std::move(reason);
      }
    }
  }
  return reasons;
}

ScopeGuard region_guard(
    const std::string& device,
    OptionalType dtype,
    bool enabled,
    std::optional<bool> cache_enabled,
    const PolicyPointer& policy) {
  const c10::DeviceType type = c10::Device(device).type();
  return {autocast::Layer::region, policy, autocast::Region{type, dtype, enabled, cache_enabled}};
}

ScopeGuard scope_guard(const ScopePointer& scope) {
  return {autocast::Layer::region, nullptr, std::nullopt, scope};
}

// Returns whether `torch.export` runs in this thread. PyTorch's function returns true in all other threads as well, but
// only the exporting thread has dispatch modes.
bool is_exporting() {
  static const py::handle question = py::object(py::module_::import("torch.compiler").attr("is_exporting")).release();
  return question().cast<bool>() && c10::impl::TorchDispatchModeTLS::any_modes_set();
}

void enter_guard(const ScopeGuard& guard, const void* owner) {
  TORCH_CHECK(
      !guard.policy || !is_exporting(),
      "torch.export: expected no policy of a region or a module, got one, whose casts the exported program would lose; "
      "export without the policy, and call polycast.use(policy) where the program runs");
  autocast::enter(guard, owner);
}

// The `__enter__` and `__exit__` of an object with a guard. Python checks for signals between the instructions of a
// Python function, and not within these C++ functions. An interrupt therefore occurs either before a region is entered
// or inside its `with` statement.
GuardPointer guard_of(const py::handle& owner) {
  static const py::handle name = PyUnicode_InternFromString("_guard");
  return py::reinterpret_steal<py::object>(PyObject_GetAttr(owner.ptr(), name.ptr())).cast<GuardPointer>();
}

// Reports a region without a policy to the modes of `torch.export`, as `torch.autocast` does.
void tell_modes(const GuardPointer& guard, const py::handle& owner, bool entered) {
  if (!guard->policy && at::impl::torch_function_mode_enabled()) {
    owner.attr("_tell_modes")(entered);
  }
}

py::object enter_owner(const py::object& owner) {
  const GuardPointer guard = guard_of(owner);
  enter_guard(*guard, owner.ptr());
  try {
    tell_modes(guard, owner, true);
  } catch (...) {  // The Python code of `tell_modes` was interrupted.
    autocast::leave(owner.ptr());
    throw;
  }
  return owner;
}

bool leave_owner(const py::object& owner, const py::args& /*error*/) {
  const GuardPointer guard = guard_of(owner);
  autocast::leave(owner.ptr());
  tell_modes(guard, owner, false);
  return false;
}

void enter_region(const std::string& device, OptionalType dtype, bool enabled, bool cache_enabled, uint64_t scope) {
  ScopeGuard guard = region_guard(device, dtype, enabled, cache_enabled, nullptr);
  guard.scope = autocast::kept(scope);
  autocast::enter(guard, nullptr);
}

// Returns the id that compiled code guards on, and stores the active scope, so that the code can enter the scope again.
uint64_t keep_id_in_force() {
  autocast::keep(autocast::share_scope_in_force());
  return autocast::id_in_force();
}

// Adds the missing kernels of the policies that were entered or used before, because other threads may be in them, and
// a checkpoint can enter an earlier scope again.
void refresh() {
  for (const PolicyPointer& policy : autocast::live_policies()) {
    if (policy->added != 0) {
      autocast::add_kernels(*policy);
    }
  }
}

}  // namespace

void bind_rules(py::module_& module) {
  py::class_<autocast::Policy, PolicyPointer>(module, "KernelPolicy")
      .def_readonly("rows", &autocast::Policy::rows)
      .def("deciding_key", &deciding_key);
  py::class_<autocast::PolicyScope, ScopePointer>(module, "PolicyScope")
      .def_property_readonly("policies", [](const autocast::PolicyScope& scope) {
        return list_of(scope.parts, [](const autocast::PolicyScope::Part& part) { return part.policy; });
      });
  py::class_<ScopeGuard, GuardPointer>(module, "ScopeGuard")
      .def(
          "__enter__",
          [](const py::object& self) {
            enter_guard(self.cast<const ScopeGuard&>(), self.ptr());
            return self;
          })
      .def("__exit__", [](const py::object& self, const py::args& /*error*/) { autocast::leave(self.ptr()); });
  module.def("kernel_policy", &autocast::policy_of);
  module.def("overloads_of", &autocast::overloads_of);
  module.def("obstacles", &obstacles);
  module.def("use_policy", &autocast::use);
  module.def("used_policy", &autocast::used);
  module.def("refresh_kernels", &refresh);
  module.def("renew_scopes", &autocast::renew_ids);
  module.def("region_guard", &region_guard);
  module.def("policy_guard", [](uint8_t layer, const PolicyPointer& policy) {
    return ScopeGuard{static_cast<autocast::Layer>(layer), policy};
  });
  module.def("scope_guard", &scope_guard);
  module.attr("enter_owner") = py::cpp_function(&enter_owner, py::name("__enter__"), py::is_method(py::none()));
  module.attr("leave_owner") = py::cpp_function(&leave_owner, py::name("__exit__"), py::is_method(py::none()));
  module.def("scope_in_force", &autocast::share_scope_in_force);
  module.def("keep_scope", &autocast::keep);
  module.def("kept_scope", &autocast::kept);
  module.def("keep_id_in_force", &keep_id_in_force);
  module.def("is_in_force", [](uint64_t id, const py::args& /*locals*/) { return autocast::id_in_force() == id; });
  module.def("enter_region", &enter_region);
  module.def("enter_scope", [](uint64_t id) { autocast::enter(scope_guard(autocast::kept(id)), nullptr); });
  module.def("leave_scope", [] {
    TORCH_INTERNAL_ASSERT(autocast::depth() > 0);
    autocast::leave_to(autocast::depth() - 1);
  });
  module.def("scope_depth", &autocast::depth);
  module.def("leave_to_depth", &autocast::leave_to);
}

}  // namespace polycast::bindings
