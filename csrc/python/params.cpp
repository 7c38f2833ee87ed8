#include "python/params.h"

#include <torch/csrc/autograd/python_variable.h>

namespace py = pybind11;

namespace polycast::python {

PyObject* params_of(PyObject* group) {
  PyObject* const params = PyDict_Check(group) ? PyDict_GetItemString(group, "params") : nullptr;
  if (params == nullptr || !PyList_Check(params)) {
    throw py::type_error("param_groups holds something that is not a dict with a list of 'params'");
  }
  return params;
}

std::string name_of(PyObject* group, size_t group_index, Py_ssize_t index) {
  PyObject* const names = PyDict_GetItemString(group, "param_names");
  if (names != nullptr && PyList_Check(names) && index < PyList_GET_SIZE(names)) {
    return py::str(py::handle(PyList_GET_ITEM(names, index)));
  }
  return "param_groups[" + std::to_string(group_index) + "]['params'][" + std::to_string(index) + "]";
}

const at::Tensor& unpack(PyObject* object) {
  if (!THPVariable_Check(object)) {
    throw py::type_error("an optimizer holds a " + std::string(Py_TYPE(object)->tp_name) + " where it needs a tensor");
  }
  return THPVariable_Unpack(object);
}

const at::Tensor& grad_of(const at::Tensor& param) {
  return param.unsafeGetTensorImpl()->grad();
}

}  // namespace polycast::python
