// Policies that are made while the program runs, from Python.
#include "bindings/bindings.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "autocast/registry.h"
#include "autocast/rules.h"
#include "autocast/scopes.h"
#include "autocast/table.h"

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

// pybind11 holds no pointers to constants.
template <class Type>
std::shared_ptr<Type> mutable_of(const std::shared_ptr<const Type>& pointer) {
  return std::const_pointer_cast<Type>(pointer);
}

using Policy = std::shared_ptr<autocast::Policy>;
using Scope = std::shared_ptr<autocast::Scope>;
using Context = std::shared_ptr<autocast::Context>;

// Name, device, category, dtype or None, the message of a banned call, and where the rule stands.
using RuleTuple = std::tuple<std::string, std::string, std::string, py::object, std::string, std::string>;

Policy make_policy(const std::string& digest, const std::vector<RuleTuple>& rules) {
  std::vector<autocast::StatedRule> parsed;
  parsed.reserve(rules.size());
  for (const auto& [name, device, category, dtype, message, origin] : rules) {
    parsed.push_back({name, device, autocast::category_of(category), optional_type(dtype), message, origin});
  }
  return mutable_of(autocast::make_policy(digest, parsed));
}

py::list rules_of(const autocast::Policy& policy) {
  py::list rules;
  for (const autocast::StatedRule& rule : policy.stated()) {
    const py::object to = rule.to ? py::cast(*rule.to) : py::none();
    rules.append(
        py::make_tuple(rule.name, rule.device, autocast::name_of(rule.category), to, rule.message, rule.origin));
  }
  return rules;
}

c10::DeviceType type_of(const std::string& device) {
  return c10::Device(device).type();
}

Context region_context(
    const std::string& device,
    const py::object& dtype,
    bool enabled,
    std::optional<bool> cache_enabled,
    const std::optional<Policy>& policy) {
  auto context = std::make_shared<autocast::Context>();
  context->region = autocast::Region{type_of(device), optional_type(dtype), enabled, cache_enabled};
  context->policy = policy.value_or(nullptr);
  return context;
}

Context policy_context(const std::string& layer, const Policy& policy) {
  auto context = std::make_shared<autocast::Context>();
  for (const autocast::Layer known : {autocast::Layer::over, autocast::Layer::module, autocast::Layer::region}) {
    if (layer == autocast::name_of(known)) {
      context->layer = known;
      context->policy = policy;
    }
  }
  TORCH_CHECK_VALUE(context->policy, "no layer '", layer, "'");
  return context;
}

Context scope_context(const std::optional<Scope>& scope) {
  auto context = std::make_shared<autocast::Context>();
  context->scope = autocast::ScopePointer(scope.value_or(nullptr));
  return context;
}

bool is_exporting() {
  static const py::handle question = py::object(py::module_::import("torch.compiler").attr("is_exporting")).release();
  return question().cast<bool>();
}

void enter(const Context& context) {
  TORCH_CHECK(
      !context->policy || !is_exporting(),
      "torch.export records the regions of a program and not their casts, and has no place for a policy of a region or "
      "a module; export without one, or make it that of the process where the program runs: polycast.use(policy)");
  autocast::enter(context);
}

// Leaving a plain region that another thread entered raises nothing, as with torch's regions.
void leave(const Context& context, const py::handle& owner) {
  if (autocast::leave(context) || (context->entries > 0 && !context->policy)) {
    return;
  }
  const char* const remedy = context->entries > 0 ? "leave it in the thread that has" : "enter it before it is left";
  TORCH_CHECK(false, "this thread has not entered ", py::str(py::repr(owner)).cast<std::string>(), "; ", remedy);
}

// The __enter__ and __exit__ of an object that holds its context. Python checks for signals between the instructions of
// a function, and not within these. So an interrupt finds a region entered and in a with statement, or not entered.
Context context_of(const py::handle& owner) {
  static const py::handle name = PyUnicode_InternFromString("_context");
  return py::reinterpret_steal<py::object>(PyObject_GetAttr(owner.ptr(), name.ptr())).cast<Context>();
}

// Only the modes of torch.export are called for regions, as by torch.
void tell_modes(const Context& context, const py::handle& owner, bool entered) {
  if (!context->policy && at::impl::torch_function_mode_enabled()) {
    owner.attr("_tell_modes")(entered);
  }
}

py::object enter_owner(const py::object& owner) {
  const Context context = context_of(owner);
  enter(context);
  tell_modes(context, owner, true);
  return owner;
}

bool leave_owner(const py::object& owner, const py::args& /*error*/) {
  const Context context = context_of(owner);
  leave(context, owner);
  tell_modes(context, owner, false);
  return false;
}

// 0 is the scope of no policy.
autocast::ScopePointer scope_of_id(uint64_t id) {
  return id == 0 ? nullptr : autocast::kept(id);
}

void enter_region(
    const std::string& device, const py::object& dtype, bool enabled, bool cache_enabled, uint64_t scope) {
  autocast::enter(scope_of_id(scope), autocast::Region{type_of(device), optional_type(dtype), enabled, cache_enabled});
}

uint64_t keep_scope(const std::optional<std::string>& layer, const std::optional<Policy>& policy) {
  autocast::ScopePointer scope = autocast::scope_in_force();
  if (policy) {
    const Context context = policy_context(layer.value(), *policy);
    autocast::add_kernels(**policy);
    scope = autocast::scope_within(scope, context->layer, context->policy);
  }
  if (!scope) {
    return 0;
  }
  autocast::keep(scope);
  return scope->id;
}

void refresh() {
  for (const autocast::ScopePointer& scope : autocast::live_scopes()) {
    for (const autocast::Scope::Part& part : scope->parts) {
      autocast::add_kernels(*part.policy);
    }
  }
  if (const autocast::PolicyPointer policy = autocast::used()) {
    autocast::add_kernels(*policy);
  }
}

}  // namespace

void bind_rules(py::module_& module) {
  py::class_<autocast::Policy, Policy>(module, "KernelPolicy").def("rules", &rules_of);
  py::class_<autocast::Scope, Scope>(module, "Scope")
      .def_readonly("id", &autocast::Scope::id)
      .def_property_readonly("policies", [](const autocast::Scope& scope) {
        std::vector<std::pair<std::string, Policy>> policies;
        for (const autocast::Scope::Part& part : scope.parts) {
          policies.emplace_back(autocast::name_of(part.layer), mutable_of(part.policy));
        }
        return policies;
      });
  py::class_<autocast::Context, Context>(module, "Context")
      .def(
          "__enter__",
          [](const py::object& self) {
            enter(self.cast<Context>());
            return self;
          })
      .def("__exit__", [](const py::object& self, const py::args& /*error*/) { leave(self.cast<Context>(), self); });
  module.def("find_policy", [](const std::string& digest) { return mutable_of(autocast::find_policy(digest)); });
  module.def("make_policy", &make_policy);
  module.def("use_policy", [](const std::optional<Policy>& policy) {
    if (policy) {
      autocast::add_kernels(**policy);
    }
    autocast::use(policy.value_or(nullptr));
  });
  module.def("used_policy", [] { return mutable_of(autocast::used()); });
  module.def("refresh_kernels", &refresh);
  module.def("region_context", &region_context);
  module.def("policy_context", &policy_context);
  module.def("scope_context", &scope_context);
  module.attr("enter_owner") = py::cpp_function(&enter_owner, py::name("__enter__"), py::is_method(py::none()));
  module.attr("leave_owner") = py::cpp_function(&leave_owner, py::name("__exit__"), py::is_method(py::none()));
  module.def("scope_in_force", [] { return mutable_of(autocast::scope_in_force()); });
  module.def("keep_scope", &keep_scope);
  module.def("kept_scope", [](uint64_t id) { return mutable_of(scope_of_id(id)); });
  module.def("show_scopes", &autocast::show_scopes);
  module.def("number_scope", &autocast::number_scope);
  module.def("set_carrier", [](const std::string& device, const std::vector<py::object>& dtypes) {
    std::vector<at::ScalarType> types;
    for (const py::object& dtype : dtypes) {
      types.push_back(scalar_type(dtype));
    }
    autocast::set_carrier(type_of(device), std::move(types));
  });
  module.def("enter_region", &enter_region);
  module.def("enter_scope", [](uint64_t id) { autocast::enter(scope_of_id(id), std::nullopt); });
  module.def("leave_scope", &autocast::leave_latest);
  module.def("scope_depth", &autocast::depth);
  module.def("leave_to_depth", &autocast::leave_to);
}

}  // namespace polycast::bindings
