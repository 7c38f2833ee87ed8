// Bindings of policies that are constructed at run time.
#include "bindings/bindings.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
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

namespace polycast::bindings {

namespace {

at::ScalarType scalar_type(const py::handle& dtype) {
  TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "not a torch.dtype");
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

std::optional<at::ScalarType> optional_type(const py::object& dtype) {
  return dtype.is_none() ? std::nullopt : std::optional(scalar_type(dtype));
}

// pybind11 does not support pointers to constants.
template <class Type>
std::shared_ptr<Type> mutable_of(const std::shared_ptr<const Type>& pointer) {
  return std::const_pointer_cast<Type>(pointer);
}

using Policy = std::shared_ptr<autocast::Policy>;
using Scope = std::shared_ptr<autocast::PolicyScope>;
using Guard = std::shared_ptr<autocast::ScopeGuard>;

// The rows of a policy/rows.py: tuples with a cell or None for each device. A cell begins with a category and a source.
autocast::Policy::Rows rows_of(const py::dict& given) {
  autocast::Policy::Rows rows;
  for (const auto& [key, cells] : given) {
    autocast::Policy::Row& row = rows[key.cast<std::string>()];
    for (const py::handle& cell : cells) {
      std::optional<autocast::RuleSpec>& spec = row.emplace_back();
      if (!cell.is_none()) {
        const auto parts = py::reinterpret_borrow<py::tuple>(cell);
        spec = {autocast::rule_named(parts[0].cast<std::string>()), parts[1].cast<std::string>()};
      }
    }
    TORCH_CHECK_VALUE(row.size() == autocast::devices().size(), "a row of ", row.size(), " devices");
  }
  return rows;
}

using Said = std::optional<std::pair<std::string, std::string>>;

std::map<std::string, std::vector<Said>> given_rows(const autocast::Policy& policy) {
  std::map<std::string, std::vector<Said>> rows;
  for (const auto& [key, row] : policy.rows) {
    for (const auto& spec : row) {
      rows[key].push_back(spec ? Said({autocast::name_of(spec->rule), spec->origin}) : std::nullopt);
    }
  }
  return rows;
}

Policy kernel_policy(const std::string& key, const py::dict& rows) {
  const autocast::PolicyPointer known = autocast::find_policy(key);
  return mutable_of(known ? known : autocast::make_policy(key, rows_of(rows)));
}

// Returns for each device the key of the row whose rule applies to an overload.
std::vector<std::optional<std::string>> deciding_keys(const autocast::Policy& policy, const std::string& overload) {
  std::vector<std::optional<std::string>> keys(autocast::devices().size());
  for (size_t device = 0; device < keys.size(); ++device) {
    if (const auto* row = policy.find_row(overload, static_cast<autocast::DeviceIndex>(device))) {
      keys[device] = row->first;
    }
  }
  return keys;
}

// Returns for each device why its category in a row can cast no overload of a key; "" if it can cast one.
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
      // The reason of an out variant is less informative than the others.
      if (reasons[device].empty() || reasons[device].rfind("writes to its out", 0) == 0) {
        reasons[device] = std::move(reason);
      }
    }
  }
  return reasons;
}

c10::DeviceType type_of(const std::string& device) {
  return c10::Device(device).type();
}

Guard region_guard(
    const std::string& device,
    const py::object& dtype,
    bool enabled,
    std::optional<bool> cache_enabled,
    const std::optional<Policy>& policy) {
  auto guard = std::make_shared<autocast::ScopeGuard>();
  guard->region = autocast::Region{type_of(device), optional_type(dtype), enabled, cache_enabled};
  guard->policy = policy.value_or(nullptr);
  return guard;
}

Guard policy_guard(const std::string& layer, const Policy& policy) {
  auto guard = std::make_shared<autocast::ScopeGuard>();
  for (const autocast::Layer known : {autocast::Layer::over, autocast::Layer::module, autocast::Layer::region}) {
    if (layer == autocast::name_of(known)) {
      guard->layer = known;
      guard->policy = policy;
    }
  }
  TORCH_CHECK_VALUE(guard->policy, "no layer '", layer, "'");
  return guard;
}

Guard scope_guard(const std::optional<Scope>& scope) {
  auto guard = std::make_shared<autocast::ScopeGuard>();
  guard->scope = autocast::ScopePointer(scope.value_or(nullptr));
  return guard;
}

bool is_exporting() {
  static const py::handle question = py::object(py::module_::import("torch.compiler").attr("is_exporting")).release();
  return question().cast<bool>();
}

void check_not_exporting() {
  TORCH_CHECK(
      !is_exporting(),
      "torch.export records the regions of a program but not their casts, so it would lose a policy of a region or a "
      "module; export without the policy, and call polycast.use(policy) where the program runs");
}

void enter(const Guard& guard) {
  if (guard->policy) {
    check_not_exporting();
  }
  autocast::enter(guard);
}

// The __enter__ and __exit__ of an object with a guard. Python checks for signals between the instructions of a Python
// function, and not within these. An interrupt therefore occurs either before a region is entered or inside its with
// statement.
Guard guard_of(const py::handle& owner) {
  static const py::handle name = PyUnicode_InternFromString("_guard");
  return py::reinterpret_steal<py::object>(PyObject_GetAttr(owner.ptr(), name.ptr())).cast<Guard>();
}

// As in PyTorch, only the modes of torch.export are called for regions.
void tell_modes(const Guard& guard, const py::handle& owner, bool entered) {
  if (!guard->policy && at::impl::torch_function_mode_enabled()) {
    owner.attr("_tell_modes")(entered);
  }
}

py::object enter_owner(const py::object& owner) {
  const Guard guard = guard_of(owner);
  enter(guard);
  tell_modes(guard, owner, true);
  return owner;
}

bool leave_owner(const py::object& owner, const py::args& /*error*/) {
  const Guard guard = guard_of(owner);
  autocast::leave(guard);
  tell_modes(guard, owner, false);
  return false;
}

// 0 is the scope without a policy.
autocast::ScopePointer scope_of_id(uint64_t id) {
  return id == 0 ? nullptr : autocast::kept(id);
}

void enter_region(
    const std::string& device, const py::object& dtype, bool enabled, bool cache_enabled, uint64_t scope) {
  autocast::enter(scope_of_id(scope), autocast::Region{type_of(device), optional_type(dtype), enabled, cache_enabled});
}

// Keeps a scope for compiled code, and returns its id.
uint64_t keep_scope(const std::optional<Scope>& scope) {
  if (!scope) {
    return 0;
  }
  autocast::keep(*scope);
  return (*scope)->id;
}

uint64_t keep_scope_within(const std::string& layer, const Policy& policy) {
  check_not_exporting();
  autocast::add_kernels(*policy);
  return keep_scope(
      mutable_of(autocast::scope_within(autocast::share_scope_in_force(), policy_guard(layer, policy)->layer, policy)));
}

// Returns the id that compiled code guards on, whose scope can be entered again.
uint64_t keep_id_in_force() {
  const autocast::ScopePointer scope = autocast::share_scope_in_force();
  if (scope) {
    autocast::keep(scope);
  }
  return autocast::id_in_force();
}

void refresh() {
  for (const autocast::ScopePointer& scope : autocast::live_scopes()) {
    for (const autocast::PolicyScope::Part& part : scope->parts) {
      autocast::add_kernels(*part.policy);
    }
  }
  if (const autocast::PolicyPointer policy = autocast::used()) {
    autocast::add_kernels(*policy);
  }
}

}  // namespace

void bind_rules(py::module_& module) {
  py::class_<autocast::Policy, Policy>(module, "KernelPolicy")
      .def_property_readonly("rows", &given_rows)
      .def("deciding_keys", &deciding_keys);
  py::class_<autocast::PolicyScope, Scope>(module, "PolicyScope")
      .def_property_readonly("policies", [](const autocast::PolicyScope& scope) {
        std::vector<std::pair<std::string, Policy>> policies;
        for (const autocast::PolicyScope::Part& part : scope.parts) {
          policies.emplace_back(autocast::name_of(part.layer), mutable_of(part.policy));
        }
        return policies;
      });
  py::class_<autocast::ScopeGuard, Guard>(module, "ScopeGuard")
      .def(
          "__enter__",
          [](const py::object& self) {
            enter(self.cast<Guard>());
            return self;
          })
      .def("__exit__", [](const py::object& self, const py::args& /*error*/) { autocast::leave(self.cast<Guard>()); });
  module.def("find_policy", [](const std::string& key) { return mutable_of(autocast::find_policy(key)); });
  module.def("kernel_policy", &kernel_policy);
  module.def("overloads_of", &autocast::overloads_of);
  module.def("obstacles", &obstacles);
  module.def("use_policy", [](const std::optional<Policy>& policy) {
    if (policy) {
      autocast::add_kernels(**policy);
    }
    autocast::use(policy.value_or(nullptr));
  });
  module.def("used_policy", [] { return mutable_of(autocast::used()); });
  module.def("refresh_kernels", &refresh);
  module.def("renew_scopes", &autocast::renew_ids);
  module.def("region_guard", &region_guard);
  module.def("policy_guard", &policy_guard);
  module.def("scope_guard", &scope_guard);
  module.attr("enter_owner") = py::cpp_function(&enter_owner, py::name("__enter__"), py::is_method(py::none()));
  module.attr("leave_owner") = py::cpp_function(&leave_owner, py::name("__exit__"), py::is_method(py::none()));
  module.def("scope_in_force", [] { return mutable_of(autocast::share_scope_in_force()); });
  module.def("keep_scope", &keep_scope);
  module.def("keep_scope_within", &keep_scope_within);
  module.def("kept_scope", [](uint64_t id) { return mutable_of(scope_of_id(id)); });
  module.def("keep_id_in_force", &keep_id_in_force);
  module.def("is_in_force", [](uint64_t id, const py::args& /*locals*/) { return autocast::id_in_force() == id; });
  module.def("enter_region", &enter_region);
  module.def("enter_scope", [](uint64_t id) { autocast::enter(scope_of_id(id), std::nullopt); });
  module.def("leave_scope", &autocast::leave_latest);
  module.def("scope_depth", &autocast::depth);
  module.def("leave_to_depth", &autocast::leave_to);
}

}  // namespace polycast::bindings
