// The record of calls, from Python.
#include "bindings/bindings.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autocast/builtin_policy.h"
#include "call_recorder/recorder.h"

namespace py = pybind11;

namespace polycast::bindings {

namespace {

// The rule as policies write it. A call that no kernel of polycast's took is "stock" or "unlisted".
std::string rule_of(const call_recorder::Call& call) {
  const auto category = call.taken ? autocast::Category::stock : autocast::Category::unlisted;
  const autocast::Rule rule = call.rule.value_or(autocast::Rule{category});
  return autocast::name_of(rule);
}

// Observer.take_calls in polycast/debug/observer.py unpacks these fields.
py::tuple tuple_of(const call_recorder::Call& call) {
  py::list casts;
  for (const call_recorder::Cast& cast : call.casts) {
    const auto address = reinterpret_cast<intptr_t>(cast.tensor);
    casts.append(py::make_tuple(cast.given, cast.to, cast.elements, cast.reused, address));
  }
  return py::make_tuple(
      call.order,
      call.node,
      call.name,
      c10::DeviceTypeName(call.device, true),
      rule_of(call),
      call.origin,
      call.module,
      call.backward,
      call.given,
      call.arrived,
      call.returned,
      casts,
      call.source);
}

py::list take_calls() {
  py::list result;
  for (const call_recorder::Call& call : call_recorder::take()) {
    result.append(tuple_of(call));
  }
  return result;
}

// Returns the file and line of the innermost frame whose file is in none of these folders. Where all are, it is that of
// the outermost frame; a thread without Python frames, as autograd has for a device, gives an empty text. This runs no
// Python, since torch swallows what a recorder raises, and loses the call.
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

void start_recording(std::string recorder, std::optional<std::vector<std::string>> lines_outside_of, size_t limit) {
  std::function<std::string()> source;
  if (lines_outside_of) {
    source = [folders = *std::move(lines_outside_of)] { return line_outside_of(folders); };
  }
  call_recorder::start(std::move(recorder), std::move(source), limit);
}

}  // namespace

void bind_call_recorder(py::module_& module) {
  module.def(
      "start_recording",
      &start_recording,
      py::arg("recorder"),
      py::arg("lines_outside_of").none(true),
      py::arg("limit"));
  module.def("stop_recording", &call_recorder::stop);
  module.def("take_calls", &take_calls);
  module.def("set_module", &call_recorder::set_module, py::arg("module"));
  module.def("current_call", &call_recorder::current);
}

}  // namespace polycast::bindings
