// The functions that polycast/cast_cache.py is made of.
#pragma once

#include <pybind11/pybind11.h>

namespace polycast::bindings {

void bind_cast_cache(pybind11::module_& module);

}  // namespace polycast::bindings
