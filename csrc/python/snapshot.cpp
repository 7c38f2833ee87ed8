#include "python/optimizer_lists.h"
#include "python/params.h"

namespace py = pybind11;

namespace polycast::python {

Snapshot::Snapshot(const py::dict& state, const py::list& param_groups) {
  const auto keep = [this](PyObject* object) {
    references_.push_back(py::reinterpret_borrow<py::object>(object));
    return object;
  };
  for (const py::handle group : param_groups) {
    groups_.push_back(keep(group.ptr()));
    PyObject* const params = param_lists_.emplace_back(keep(params_of(group.ptr())));
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(params); ++index) {
      params_.push_back(keep(PyList_GET_ITEM(params, index)));
    }
  }
  for (const auto& [param, values] : state) {
    if (!PyDict_Check(values.ptr())) {
      throw py::type_error("the state of a parameter is not a dict");
    }
    for (const auto& item : py::reinterpret_borrow<py::dict>(values)) {
      values_.push_back(keep(item.second.ptr()));
    }
    entries_.push_back({keep(param.ptr()), keep(values.ptr()), values_.size()});
  }
}

bool Snapshot::holds(const py::dict& state, const py::list& param_groups) const {
  if (param_groups.size() != groups_.size() || state.size() != entries_.size()) {
    return false;
  }
  size_t at = 0;
  for (size_t group = 0; group < groups_.size(); ++group) {
    PyObject* const current = PyList_GET_ITEM(param_groups.ptr(), group);
    if (current != groups_[group] || params_of(current) != param_lists_[group]) {
      return false;
    }
    PyObject* const params = param_lists_[group];
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(params); ++index, ++at) {
      if (at == params_.size() || PyList_GET_ITEM(params, index) != params_[at]) {
        return false;
      }
    }
  }
  if (at != params_.size()) {
    return false;
  }
  PyObject *param, *values, *name, *value;
  Py_ssize_t entry_position = 0;
  at = 0;
  for (size_t entry = 0; PyDict_Next(state.ptr(), &entry_position, &param, &values); ++entry) {
    if (param != entries_[entry].param || values != entries_[entry].values) {
      return false;
    }
    for (Py_ssize_t position = 0; PyDict_Next(values, &position, &name, &value); ++at) {
      if (at == entries_[entry].end || value != values_[at]) {
        return false;
      }
    }
    if (at != entries_[entry].end) {
      return false;
    }
  }
  return true;
}

}  // namespace polycast::python
