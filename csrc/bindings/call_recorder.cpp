// Bindings of the call recorder.
#include "bindings/bindings.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/profiler/combined_traceback.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
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
      call.made);
}

// Returns the calls, the file and line of each frame in their stacks, and for each stack the indices of its frames,
// innermost first. There are no stacks unless the recording was started with them.
py::tuple take_calls() {
  const std::vector<call_recorder::Call> calls = call_recorder::take();
  std::vector<torch::CapturedTraceback*> stacks;
  for (const call_recorder::Call& call : calls) {
    if (call.stack) {
      stacks.push_back(call.stack.get());
    }
  }
  const torch::SymbolizedTracebacks found = torch::symbolize(stacks);
  const auto line_of = [](const torch::unwind::Frame& frame) { return py::make_tuple(frame.filename, frame.lineno); };
  return py::make_tuple(list_of(calls, &tuple_of), list_of(found.all_frames, line_of), found.tracebacks);
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
  module.def("any_non_finite", &call_recorder::any_non_finite);
  module.def("held_count", &call_recorder::held_count);
  module.def("held_calls", &call_recorder::held_calls);
  module.def("drop_calls", &call_recorder::drop_calls);
  module.def("key_of", &call_recorder::key_of);
}

}  // namespace

void bind_call_recorder(py::module_& module) {
  bind_program_calls(module);
  module.def("start_recording", &call_recorder::start);
  module.def("stop_recording", &call_recorder::stop);
  module.def("take_calls", &take_calls);
  module.def("set_module", [](int64_t module) { call_recorder::current_module = module; });
}

}  // namespace polycast::bindings
