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
  const at::Tensor non_finite = operators::call(op, gradients.tensors, gradients.tensors, found_inf, inv_scale);
  std::for_each(gradients.sharded.begin(), gradients.sharded.end(), &raise_version);
  return non_finite;
}

DeviceGradients& place_of(std::vector<DeviceGradients>& all, c10::Device device, const Layout& layout) {
  const auto fits = [&](const DeviceGradients& gradients) {
    return gradients.device == device && gradients.layout == layout;
  };
  const auto place = std::find_if(all.begin(), all.end(), fits);
  return place != all.end() ? *place : all.emplace_back(DeviceGradients{device, layout, {}, {}, {}});
}

bool has_type(const DeviceGradients& gradients, at::ScalarType type) {
  const auto is_type = [type](const at::Tensor& tensor) { return tensor.scalar_type() == type; };
  return std::any_of(gradients.tensors.begin(), gradients.tensors.end(), is_type);
}

}  // namespace

std::vector<DeviceGradients> gather_gradients(const py::list& param_groups, bool coalesce_in_place) {
  std::vector<DeviceGradients> result;
  const Layout nowhere;
  for (size_t group = 0; group < param_groups.size(); ++group) {
    PyObject* const values = PyList_GET_ITEM(param_groups.ptr(), group);
    PyObject* const params = params_of(values);
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(params); ++index) {
      const at::Tensor& param = unpack(PyList_GET_ITEM(params, index));
      const at::Tensor& grad = grad_of(param);
      if (!grad.defined()) {
        continue;
      }
      if (is_sharded(param)) {
        const std::string name = name_of(values, group, index);
        align_grad(param, name);
        DeviceGradients& place = place_of(result, grad.device(), layout_of(param, name));
        place.tensors.push_back(local_of(grad));
        place.sharded.push_back(grad);
        place.positions.emplace_back(group, index);
        continue;
      }
      if (coalesce_in_place && grad.is_sparse() && !grad.is_coalesced()) {
        param.mutable_grad() = grad.coalesce();
      }
      DeviceGradients& place = place_of(result, grad.device(), nowhere);
      place.tensors.push_back(elements(grad));
      place.positions.emplace_back(group, index);
    }
  }
  return result;
}

void bind_gradients(py::module_& module) {
  const auto no_gil = py::call_guard<py::gil_scoped_release>();
  module.def("gather_gradients", &gather_gradients, py::arg("param_groups"), py::arg("coalesce_in_place") = false);
  module.def("is_sharded", &is_sharded);
  py::class_<DeviceGradients>(module, "DeviceGradients")
      .def_property_readonly("device", [](const DeviceGradients& gradients) { return py::cast(gradients.device); })
      .def_property_readonly("mesh", [](const DeviceGradients& gradients) { return gradients.layout.mesh; })
      .def_property_readonly("split_dims", [](const DeviceGradients& gradients) { return gradients.layout.split; })
      .def_readonly("positions", &DeviceGradients::positions)
      .def("has_float16", [](const DeviceGradients& gradients) { return has_type(gradients, at::kHalf); })
      .def("check", &check, no_gil)
      .def("norm", &norm, no_gil, py::arg("norm_type"))
      .def("unscale_", &unscale, no_gil, py::arg("found_inf"), py::arg("inv_scale"))
      .def("release", [](DeviceGradients& gradients) {
        gradients.tensors.clear();
        gradients.sharded.clear();
      });
}

}  // namespace polycast::python
