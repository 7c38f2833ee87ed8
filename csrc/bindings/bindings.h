// What each file of this room adds to the compiled module.
#pragma once

#include <pybind11/pybind11.h>

namespace polycast::bindings {

void bind_cast_cache(pybind11::module_& module);
void bind_lists(pybind11::module_& module);
void bind_rules(pybind11::module_& module);
void bind_call_recorder(pybind11::module_& module);
void bind_write_back(pybind11::module_& module);

}  // namespace polycast::bindings
