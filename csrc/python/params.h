// Reading the Python objects that an optimizer keeps, without Python work for each tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

namespace polycast::python {

// The list under "params", borrowed. Raises a TypeError for anything that is not a parameter group.
PyObject* params_of(PyObject* group);

// Raises a TypeError for anything that is not a tensor.
const at::Tensor& unpack(PyObject* object);

// Without the warning that Tensor::grad has for tensors that are no leaves.
const at::Tensor& grad_of(const at::Tensor& param);

}  // namespace polycast::python
