// Giving tensors new values in place, for a kernel in Python that computes them out of place.
#pragma once

#include <pybind11/pybind11.h>

namespace polycast::python {

void bind_write_back(pybind11::module_& module);

}  // namespace polycast::python
