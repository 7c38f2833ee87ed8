// The functions with which the files of this folder add their bindings to the compiled module.
#pragma once

#include <pybind11/pybind11.h>

namespace polycast::bindings {

// Returns a Python list of `make(item)` for each item.
template <class Items, class Make>
pybind11::list list_of(const Items& items, const Make& make) {
  pybind11::list result;
  for (const auto& item : items) {
    result.append(make(item));
  }
  return result;
}

void bind_cast_cache(pybind11::module_& module);
void bind_optimizer_checks(pybind11::module_& module);
void bind_rules(pybind11::module_& module);
void bind_call_recorder(pybind11::module_& module);

}  // namespace polycast::bindings
