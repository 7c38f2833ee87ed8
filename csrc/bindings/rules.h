// Rules of a policy that is made while the program runs, from Python.
#pragma once

#include <pybind11/pybind11.h>

namespace polycast::bindings {

void bind_rules(pybind11::module_& module);

}  // namespace polycast::bindings
