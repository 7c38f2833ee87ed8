#include "python/gradients.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "python/operators.h"
#include "python/params.h"

namespace py = pybind11;

namespace polycast::python {

namespace {

// The duplicates of a gradient that is not coalesced add up.
at::Tensor elements(const at::Tensor& grad) {
  return grad.is_sparse() ? grad.coalesce()._values() : grad;
}

std::tuple<at::Tensor, at::Tensor> check(const DeviceGradients& gradients) {
  static const auto op = operators::find<operators::Check>("polycast::check");
  return operators::call(op, gradients.tensors, gradients.tensors);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> norm(const DeviceGradients& gradients, double norm_type) {
  static const auto op = operators::find<operators::Norm>("polycast::norm");
  return operators::call(op, gradients.tensors, gradients.tensors, norm_type);
}

at::Tensor unscale(const DeviceGradients& gradients, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  static const auto op = operators::find<operators::Unscale>("polycast::unscale_");
  return operators::call(op, gradients.tensors, gradients.tensors, found_inf, inv_scale);
}

bool has_type(const DeviceGradients& gradients, at::ScalarType type) {
  const auto is_type = [type](const at::Tensor& tensor) { return tensor.scalar_type() == type; };
  return std::any_of(gradients.tensors.begin(), gradients.tensors.end(), is_type);
}

}  // namespace

std::vector<DeviceGradients> gather_gradients(const py::list& param_groups, bool coalesce_in_place) {
  std::vector<DeviceGradients> result;
  for (size_t group = 0; group < param_groups.size(); ++group) {
    PyObject* const params = params_of(PyList_GET_ITEM(param_groups.ptr(), group));
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(params); ++index) {
      const at::Tensor& param = unpack(PyList_GET_ITEM(params, index));
      const at::Tensor& grad = grad_of(param);
      if (!grad.defined()) {
        continue;
      }
      if (coalesce_in_place && grad.is_sparse() && !grad.is_coalesced()) {
        param.mutable_grad() = grad.coalesce();
      }
      const auto fits = [&](const DeviceGradients& gradients) { return gradients.device == grad.device(); };
      auto place = std::find_if(result.begin(), result.end(), fits);
      if (place == result.end()) {
        result.push_back({grad.device(), {}, {}});
        place = result.end() - 1;
      }
      place->tensors.push_back(elements(grad));
      place->positions.emplace_back(group, index);
    }
  }
  return result;
}

void bind_gradients(py::module_& module) {
  const auto no_gil = py::call_guard<py::gil_scoped_release>();
  module.def("gather_gradients", &gather_gradients, py::arg("param_groups"), py::arg("coalesce_in_place") = false);
  py::class_<DeviceGradients>(module, "DeviceGradients")
      .def_property_readonly("device", [](const DeviceGradients& gradients) { return py::cast(gradients.device); })
      .def_readonly("positions", &DeviceGradients::positions)
      .def("has_float16", [](const DeviceGradients& gradients) { return has_type(gradients, at::kHalf); })
      .def("check", &check, no_gil)
      .def("norm", &norm, no_gil, py::arg("norm_type"))
      .def("unscale_", &unscale, no_gil, py::arg("found_inf"), py::arg("inv_scale"))
      .def("release", [](DeviceGradients& gradients) { gradients.tensors.clear(); });
}

}  // namespace polycast::python
