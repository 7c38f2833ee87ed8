// The compiled module, `polycast._C`. Only `polycast/_extension.py` imports it.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "autocast/builtin_policy.h"
#include "autocast/registry.h"
#include "bindings/bindings.h"

namespace py = pybind11;
namespace autocast = polycast::autocast;
using polycast::bindings::list_of;

namespace {

py::list device_list() {
  return list_of(autocast::devices(), [](const autocast::Device& device) {
    return py::make_tuple(device.name, device.dispatch_key, py::cast(device.lower_precision), device.like);
  });
}

py::list rule_list() {
  return list_of(autocast::built_in_rules(), [](const autocast::BuiltInRule& rule) {
    return py::make_tuple(rule.op, rule.overload, rule.device, autocast::name_of(rule.category), rule.note);
  });
}

py::list name_list() {
  return list_of(autocast::public_names(), [](const auto& group) { return py::make_tuple(group.names, group.ops); });
}

py::dict category_dict() {
  return list_of(autocast::category_docs(), [](const auto& doc) { return py::make_tuple(doc.name, doc.text); });
}

// Calls a Python function without the warnings of PyTorch's C++ code, which would bypass Python's warning filters.
py::object without_warnings(const py::function& call) {
  const autocast::Silence silence;
  return call();
}

// The bindings borrow references from lists, so Python must enable the GIL. pybind11 has `mod_gil_used` since 3.1.
py::mod_gil_not_used uses_gil() {
#if PYBIND11_VERSION_HEX >= 0x030100A0
  return py::mod_gil_used();
#else
  return py::mod_gil_not_used(false);
#endif
}

}  // namespace

PYBIND11_MODULE(_C, module, uses_gil()) {
  module.def("install_kernels", &autocast::install, py::arg("device"), py::arg("fallback"));
  module.def("uninstall_kernels", &autocast::uninstall, py::arg("device"));
  module.def("installed_kernels", &autocast::installed);
  module.def("without_warnings", &without_warnings, py::arg("call"));
  module.def("devices", &device_list);
  module.def("built_in_rules", &rule_list);
  module.def("names", &name_list);
  module.def("categories", &category_dict);
  polycast::bindings::bind_rules(module);
  polycast::bindings::bind_call_recorder(module);
  polycast::bindings::bind_cast_cache(module);
  polycast::bindings::bind_optimizer_checks(module);
}
