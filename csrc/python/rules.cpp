#include "python/rules.h"

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
#include "autocast/table.h"

namespace py = pybind11;

namespace polycast::python {

namespace {

at::ScalarType scalar_type(const py::handle& dtype) {
  TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "not a torch.dtype");
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

autocast::Category category_of(const std::string& name) {
  for (const autocast::Sentence& sentence : autocast::sentences()) {
    if (name == sentence.name) {
      return sentence.category;
    }
  }
  TORCH_CHECK_VALUE(false, "no category '", name, "'");
}

// Name, device, category, dtype or None, and what a banned call is told.
using PatchTuple = std::tuple<std::string, std::string, std::string, py::object, std::string>;

const autocast::Rules& make_rules(const std::vector<PatchTuple>& patches) {
  std::vector<autocast::Patch> parsed;
  parsed.reserve(patches.size());
  for (const auto& [name, device, category, dtype, message] : patches) {
    const std::optional<at::ScalarType> to = dtype.is_none() ? std::nullopt : std::optional(scalar_type(dtype));
    parsed.push_back({name, device, category_of(category), to, message});
  }
  return autocast::patched_rules(parsed);
}

std::optional<at::ScalarType> number_of(const py::object& dtype) {
  return dtype.is_none() ? std::nullopt : std::optional(scalar_type(dtype));
}

void enter_region(
    const std::string& device, const py::object& dtype, bool enabled, bool cache_enabled, const py::object& number) {
  const c10::DeviceType type = c10::Device(device).type();
  autocast::enter(autocast::Region{type, scalar_type(dtype), enabled, cache_enabled}, number_of(number));
}

}  // namespace

void bind_rules(py::module_& module) {
  py::class_<autocast::Rules>(module, "Rules");
  py::class_<autocast::Additions, std::shared_ptr<autocast::Additions>>(module, "Additions");
  module.def("base_rules", &autocast::base_rules, py::return_value_policy::reference);
  module.def("make_rules", &make_rules, py::arg("patches"), py::return_value_policy::reference);
  module.def("use_rules", &autocast::use, py::arg("rules"));
  module.def("add_kernels", &autocast::add_kernels, py::arg("names_and_devices"));
  module.def(
      "set_carrier",
      [](const std::string& device) { autocast::set_carrier(c10::Device(device).type()); },
      py::arg("device"));
  module.def(
      "set_numbered",
      [](const py::object& number, const autocast::Rules* rules) {
        autocast::set_numbered(scalar_type(number), rules);
      },
      py::arg("number"),
      py::arg("rules").none(true));
  module.def("uses_of", [](const py::object& number) { return autocast::uses_of(scalar_type(number)); });
  module.def("enter_region", &enter_region);
  module.def("enter_rules", [](const py::object& number) { autocast::enter(std::nullopt, number_of(number)); });
  module.def("leave_rules", &autocast::leave);
  module.def("rules_depth", &autocast::depth);
  module.def("leave_rules_to", &autocast::leave_to);
}

}  // namespace polycast::python
