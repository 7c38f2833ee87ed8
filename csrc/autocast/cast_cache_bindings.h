#pragma once

#include <pybind11/pybind11.h>

namespace polycast::autocast {

// The functions of the cast cache that polycast/cast_cache.py is made of.
void bind_cast_cache(pybind11::module_& module);

}  // namespace polycast::autocast
