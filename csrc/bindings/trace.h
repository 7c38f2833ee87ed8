// The record of calls, from Python.
#pragma once

#include <pybind11/pybind11.h>

namespace polycast::bindings {

void bind_trace(pybind11::module_& module);

}  // namespace polycast::bindings
