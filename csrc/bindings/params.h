// The parameters that a Python optimizer holds, read without Python work for each.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <string>

namespace polycast::bindings {

// The list under "params", borrowed. Raises a TypeError for anything that is not a parameter group.
PyObject* params_of(PyObject* group);

bool is_tensor(PyObject* object);

// Raises a TypeError for anything that is not a tensor.
const at::Tensor& unpack(PyObject* object);

// The Python object of a tensor.
pybind11::object object_of(const at::Tensor& tensor);

// Without the warning that Tensor::grad has for tensors that are no leaves.
const at::Tensor& grad_of(const at::Tensor& param);

// Whether a tensor is of a class that has a say, in Python, in what operators do.
inline bool is_python(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has(c10::DispatchKey::Python);
}

// Whether only a tensor's class knows its values. A fake one's knows every operator, by what it does to meta tensors.
bool is_opaque(const at::Tensor& tensor);

// The name of a tensor's class.
std::string class_of(const at::Tensor& tensor);

// A class of a Python module that others import; nothing is of that class before. Never released: classes stay.
class LateClass {
 public:
  constexpr LateClass(const char* module, const char* name) : module_(module), name_(name) {}

  bool has(PyObject* object);

 private:
  const char* module_;
  const char* name_;
  PyObject* class_ = nullptr;
};

// What messages call a parameter: the name that the optimizer was given, else where it stands.
std::string name_of(const pybind11::list& param_groups, size_t group, size_t index);

// A parameter, borrowed, and where it stands.
struct Param {
  const pybind11::list& param_groups;
  size_t group;
  size_t index;  // in the list of its group
  PyObject* object;
  const at::Tensor& tensor;

  std::string name() const {
    return name_of(param_groups, group, index);
  }
};

// Calls visit with each parameter of all groups.
template <class Visit>
void visit_params(const pybind11::list& param_groups, const Visit& visit) {
  for (size_t group = 0; group < param_groups.size(); ++group) {
    PyObject* const params = params_of(PyList_GET_ITEM(param_groups.ptr(), group));
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(params); ++index) {
      PyObject* const object = PyList_GET_ITEM(params, index);
      visit(Param{param_groups, group, static_cast<size_t>(index), object, unpack(object)});
    }
  }
}

}  // namespace polycast::bindings
