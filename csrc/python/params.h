// Reading the Python objects that an optimizer keeps, without Python work for each tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <string>

namespace polycast::python {

// The list under "params", borrowed. Raises a TypeError for anything that is not a parameter group.
PyObject* params_of(PyObject* group);

// What messages call a parameter: the name that the optimizer was given, else its place.
std::string name_of(PyObject* group, size_t group_index, Py_ssize_t index);

// Raises a TypeError for anything that is not a tensor.
const at::Tensor& unpack(PyObject* object);

// Without the warning that Tensor::grad has for tensors that are no leaves.
const at::Tensor& grad_of(const at::Tensor& param);

}  // namespace polycast::python
