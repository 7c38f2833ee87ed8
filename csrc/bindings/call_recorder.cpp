// Bindings of the call recorder.
#include "bindings/bindings.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autocast/rules.h"
#include "call_recorder/program_calls.h"
#include "call_recorder/recorder.h"

namespace py = pybind11;

namespace polycast::bindings {

namespace {

// `Observer.take_calls` in `polycast/debug/observer.py` unpacks these fields.
py::tuple tuple_of(const call_recorder::Call& call) {
  return py::make_tuple(
      call.order,
      call.name,
      c10::DeviceTypeName(call.device, true),
      autocast::name_of(call.rule),
      call.origin,
      call.module,
      call.backward,
      call.given,
      call.arrived,
      call.returned,
      call.made,
      call.source);
}

// Returns the file and line of the innermost frame whose file is in none of these folders, otherwise of the outermost
// frame. In a thread without Python frames, such as autograd's thread of a device, the result is empty. The function
// runs no Python code, because an exception would lose the call.
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

// Starts to store calls. PyTorch swallows the exceptions of a recorder. Therefore errors of `on_write` are printed, and
// an interrupt is raised again later.
void start_holding(const std::vector<at::Tensor>& weights, const call_recorder::OnWrite& on_write, bool copies) {
  const auto call = [on_write](const at::Tensor& found_inf) {
    const py::gil_scoped_acquire acquired;
    try {
      on_write(found_inf);
    } catch (py::error_already_set& error) {
      if (error.matches(PyExc_KeyboardInterrupt)) {
        PyErr_SetInterrupt();
      } else {
        error.discard_as_unraisable("polycast.debug.watch");
      }
    }
  };
  call_recorder::start_holding(weights, call, copies);
}

void bind_program_calls(py::module_& module) {
  using call_recorder::Input;
  using call_recorder::Output;
  using call_recorder::ProgramCall;
  py::class_<Input>(module, "CallInput")
      .def_readonly("tensor", &Input::tensor)
      .def_readonly("key", &Input::key)
      .def_property_readonly("is_as_given", &Input::is_as_given);
  py::class_<Output>(module, "CallOutput")
      .def_readonly("key", &Output::key)
      .def_readonly("dtype", &Output::dtype)
      .def_readonly("is_written", &Output::is_written)
      .def_readonly("is_view", &Output::is_view)
      .def_readonly("is_finite", &Output::is_finite)
      .def_readonly("copy", &Output::copy);
  py::class_<ProgramCall, std::shared_ptr<ProgramCall>>(module, "ProgramCall")
      .def_property_readonly("name", [](const ProgramCall& call) { return c10::toString(call.op.operator_name()); })
      .def_readonly("module", &ProgramCall::module)
      .def_readonly("in_step", &ProgramCall::in_step)
      .def_readonly("task", &ProgramCall::task)
      .def_readonly("node", &ProgramCall::node)
      .def_readonly("thread", &ProgramCall::thread)
      .def_readonly("function", &ProgramCall::function)
      .def_property_readonly("weight", [](const ProgramCall& call) { return reinterpret_cast<intptr_t>(call.weight); })
      .def_readonly("first", &ProgramCall::first)
      .def_readonly("last", &ProgramCall::last)
      .def_property_readonly("is_in_region", [](const ProgramCall& call) { return call.region.enabled; })
      .def_readonly("inputs", &ProgramCall::inputs)
      .def_readonly("outputs", &ProgramCall::outputs)
      .def_property_readonly(
          "updates_statistics", [](const ProgramCall& call) { return autocast::updates_statistics(call.op.schema()); })
      .def_property_readonly("has_non_finite_number", &ProgramCall::has_non_finite_number)
      .def_property_readonly("found_inf", &ProgramCall::found_inf)
      .def("run", &ProgramCall::run, py::call_guard<py::gil_scoped_release>());
  module.def("start_holding", &start_holding);
  module.def("pause_holding", &call_recorder::pause_holding);
  module.def("set_step", &call_recorder::set_step);
  module.def("any_non_finite", &call_recorder::any_non_finite, py::call_guard<py::gil_scoped_release>());
  module.def("held_count", &call_recorder::held_count);
  module.def("held_calls", &call_recorder::held_calls);
  module.def("drop_calls", &call_recorder::drop_calls);
  module.def("key_of", &call_recorder::key_of);
}

}  // namespace

void bind_call_recorder(py::module_& module) {
  bind_program_calls(module);
  module.def("start_recording", &start_recording);
  module.def("stop_recording", &call_recorder::stop);
  module.def("take_calls", [] { return list_of(call_recorder::take(), &tuple_of); });
  module.def("set_module", [](int64_t module) { call_recorder::current_module = module; });
}

}  // namespace polycast::bindings
