#include "bindings/params.h"

#include <torch/csrc/autograd/python_variable.h>

namespace py = pybind11;

namespace polycast::bindings {

PyObject* params_of(PyObject* group) {
  PyObject* const params = PyDict_Check(group) ? PyDict_GetItemString(group, "params") : nullptr;
  if (params == nullptr || !PyList_Check(params)) {
    throw py::type_error("param_groups holds something that is not a dict with a list of 'params'");
  }
  return params;
}

bool is_tensor(PyObject* object) {
  return THPVariable_Check(object);
}

const at::Tensor& unpack(PyObject* object) {
  if (!is_tensor(object)) {
    throw py::type_error("an optimizer holds a " + std::string(Py_TYPE(object)->tp_name) + " where it needs a tensor");
  }
  return THPVariable_Unpack(object);
}

py::object object_of(const at::Tensor& tensor) {
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

const at::Tensor& grad_of(const at::Tensor& param) {
  return param.unsafeGetTensorImpl()->grad();
}

bool is_opaque(const at::Tensor& tensor) {
  static LateClass fake("torch._subclasses.fake_tensor", "FakeTensor");
  return is_python(tensor) && !fake.has(object_of(tensor).ptr());
}

std::string class_of(const at::Tensor& tensor) {
  return Py_TYPE(object_of(tensor).ptr())->tp_name;
}

bool LateClass::has(PyObject* object) {
  if (class_ == nullptr) {
    const auto module = py::reinterpret_steal<py::object>(PyImport_GetModule(py::str(module_).ptr()));
    if (!module || !py::hasattr(module, name_)) {
      return false;
    }
    class_ = py::object(module.attr(name_)).release().ptr();
  }
  return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(class_)) != 0;
}

std::string name_of(const py::list& param_groups, size_t group, size_t index) {
  PyObject* const names = PyDict_GetItemString(PyList_GET_ITEM(param_groups.ptr(), group), "param_names");
  if (names != nullptr && PyList_Check(names) && index < static_cast<size_t>(PyList_GET_SIZE(names))) {
    return py::str(py::handle(PyList_GET_ITEM(names, index)));
  }
  return "param_groups[" + std::to_string(group) + "]['params'][" + std::to_string(index) + "]";
}

}  // namespace polycast::bindings
