// What Python asks of lists of tensors before it hands them to an operator.
#pragma once

#include <pybind11/pybind11.h>

namespace polycast::bindings {

void bind_lists(pybind11::module_& module);

}  // namespace polycast::bindings
