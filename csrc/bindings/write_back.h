// What a kernel in Python needs that is compiled for lists of tensors, and computes new values out of place.
#pragma once

#include <pybind11/pybind11.h>

namespace polycast::bindings {

void bind_write_back(pybind11::module_& module);

}  // namespace polycast::bindings
