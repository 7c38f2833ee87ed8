#include "python/trace.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <string>
#include <vector>

#include "autocast/table.h"
#include "trace/recorder.h"

namespace py = pybind11;

namespace polycast::python {

namespace {

py::object rule_of(const trace::Call& call) {
  if (!call.rule) {
    return py::none();
  }
  for (const autocast::Sentence& sentence : autocast::sentences()) {
    if (call.rule->to != at::ScalarType::Undefined && call.rule->category == autocast::Category::lower_precision_fp) {
      return py::str(c10::getDtypeNames(call.rule->to).first);
    }
    if (sentence.category == call.rule->category) {
      return py::str(sentence.name);
    }
  }
  return py::none();
}

py::list tensors_of(const std::vector<trace::Tensor>& tensors) {
  py::list result;
  for (const trace::Tensor& tensor : tensors) {
    result.append(py::make_tuple(tensor.type, tensor.elements));
  }
  return result;
}

// As polycast._compiled names the fields.
py::tuple tuple_of(const trace::Call& call) {
  py::list casts;
  for (const trace::Cast& cast : call.casts) {
    const auto address = reinterpret_cast<intptr_t>(cast.tensor);
    casts.append(py::make_tuple(cast.given.type, cast.to, cast.given.elements, address, cast.reused, cast.nanoseconds));
  }
  return py::make_tuple(
      call.order,
      call.name,
      c10::DeviceTypeName(call.device, true),
      call.taken,
      rule_of(call),
      call.origin,
      call.place,
      call.backward,
      call.node,
      tensors_of(call.given),
      call.arrived,
      call.returned,
      casts,
      call.nanoseconds,
      call.source);
}

py::list take_calls() {
  py::list result;
  for (const trace::Call& call : trace::take()) {
    result.append(tuple_of(call));
  }
  return result;
}

// Calls the Python function from whatever thread; what it raises is raised where the operator was called.
void start_recording(const py::object& source, size_t limit) {
  if (source.is_none()) {
    trace::start(nullptr, limit);
    return;
  }
  trace::start(
      [source] {
        const py::gil_scoped_acquire acquired;
        return source().cast<std::string>();
      },
      limit);
}

}  // namespace

void bind_trace(py::module_& module) {
  module.def("start_recording", &start_recording, py::arg("source").none(true), py::arg("limit"));
  module.def("stop_recording", &trace::stop);
  module.def("take_calls", &take_calls);
  module.def("set_place", &trace::set_place, py::arg("place"));
  module.def("current_call", &trace::current);
}

}  // namespace polycast::python
