#include "bindings/trace.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "autocast/table.h"
#include "trace/recorder.h"

namespace py = pybind11;

namespace polycast::bindings {

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

// The file and line of the innermost frame that is in none of these folders; that of the outermost frame where all are,
// and nothing in a thread that runs no Python, as autograd's for a device. It runs no Python either: torch swallows
// what a recorder raises, with the call that it was to record.
std::string line_outside_of(const std::vector<std::string>& folders) {
  const py::gil_scoped_acquire acquired;
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  std::string line;
  while (frame) {
    auto* const current = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(current)));
    const auto file = code.attr("co_filename").cast<std::string>();
    line = file + ":" + std::to_string(PyFrame_GetLineNumber(current));
    const auto holds_file = [&](const std::string& folder) { return file.rfind(folder, 0) == 0; };
    if (std::none_of(folders.begin(), folders.end(), holds_file)) {
      break;
    }
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(current)));
  }
  return line;
}

void start_recording(const std::optional<std::vector<std::string>>& lines_outside_of, size_t limit) {
  if (!lines_outside_of) {
    trace::start(nullptr, limit);
    return;
  }
  trace::start([folders = *lines_outside_of] { return line_outside_of(folders); }, limit);
}

}  // namespace

void bind_trace(py::module_& module) {
  module.def("start_recording", &start_recording, py::arg("lines_outside_of").none(true), py::arg("limit"));
  module.def("stop_recording", &trace::stop);
  module.def("take_calls", &take_calls);
  module.def("set_place", &trace::set_place, py::arg("place"));
  module.def("current_call", &trace::current);
}

}  // namespace polycast::bindings
