// The steps of prepared lists as Python calls them: a call for each batch.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "optim/checks.h"
#include "python/operators.h"
#include "python/optimizer_lists.h"

namespace py = pybind11;

namespace polycast::python {

namespace {

using operators::OptionalTensor;

// The tensors that a step takes beside the lists.
struct StepTensors {
  at::Tensor lr;
  OptionalTensor found_inf;
  OptionalTensor grad_scale;
  OptionalTensor clip_coef;

  optim::StepScalars scalars() const {
    return {lr, found_inf, grad_scale, clip_coef};
  }
};

optim::AdamLists adam_lists(const Batch& batch, bool amsgrad) {
  return {
      batch.params,
      batch.grads,
      batch.state[0],
      batch.state[1],
      amsgrad ? at::TensorList(batch.state[3]) : at::TensorList(),
      batch.state[2]};
}

optim::SgdLists sgd_lists(const Batch& batch, double momentum, double dampening) {
  return {
      batch.params,
      batch.grads,
      momentum != 0 ? at::TensorList(batch.state[0]) : at::TensorList(),
      momentum != 0 && dampening != 0 ? at::TensorList(batch.state[1]) : at::TensorList()};
}

void check_adam(const Batch& batch, const StepTensors& tensors, bool amsgrad) {
  const optim::AdamLists lists = adam_lists(batch, amsgrad);
  optim::check_arguments(lists, tensors.scalars());
  optim::check_tensors(lists);
  optim::check_memory(lists);
}

void adam_step(
    const Batch& batch,
    const StepTensors& tensors,
    double beta1,
    double beta2,
    double weight_decay,
    double eps,
    bool decoupled_weight_decay,
    bool maximize,
    bool amsgrad) {
  static const auto op = operators::find<operators::AdamStep>("polycast::adam_step_");
  const optim::AdamLists lists = adam_lists(batch, amsgrad);
  operators::call(
      op,
      lists.params,
      lists.params,
      lists.grads,
      lists.exp_avgs,
      lists.exp_avg_sqs,
      lists.max_exp_avg_sqs,
      lists.steps,
      tensors.lr,
      beta1,
      beta2,
      weight_decay,
      eps,
      decoupled_weight_decay,
      maximize,
      tensors.found_inf,
      tensors.grad_scale,
      tensors.clip_coef);
  batch.raise_versions();
}

void check_sgd(const Batch& batch, const StepTensors& tensors, double momentum, double dampening) {
  const optim::SgdLists lists = sgd_lists(batch, momentum, dampening);
  optim::check_arguments(lists, tensors.scalars());
  optim::check_tensors(lists);
  optim::check_memory(lists);
}

void sgd_step(
    const Batch& batch,
    const StepTensors& tensors,
    double weight_decay,
    double momentum,
    double dampening,
    bool nesterov,
    bool maximize) {
  static const auto op = operators::find<operators::SgdStep>("polycast::sgd_step_");
  const optim::SgdLists lists = sgd_lists(batch, momentum, dampening);
  operators::call(
      op,
      lists.params,
      lists.params,
      lists.grads,
      lists.momentum_buffers,
      lists.momentum_started,
      tensors.lr,
      weight_decay,
      momentum,
      dampening,
      nesterov,
      maximize,
      tensors.found_inf,
      tensors.grad_scale,
      tensors.clip_coef);
  batch.raise_versions();
}

using Tensors = std::vector<at::Tensor>;

void check_adam_step(
    const Tensors& params,
    const Tensors& grads,
    const Tensors& exp_avgs,
    const Tensors& exp_avg_sqs,
    const Tensors& max_exp_avg_sqs,
    const Tensors& steps,
    const StepTensors& tensors) {
  const optim::AdamLists lists{params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps};
  optim::check_arguments(lists, tensors.scalars());
  optim::check_tensors(lists);
}

void check_sgd_step(
    const Tensors& params,
    const Tensors& grads,
    const Tensors& momentum_buffers,
    const Tensors& momentum_started,
    const StepTensors& tensors) {
  const optim::SgdLists lists{params, grads, momentum_buffers, momentum_started};
  optim::check_arguments(lists, tensors.scalars());
  optim::check_tensors(lists);
}

// Null while the object is being made.
OptimizerLists*& lists_in(PyObject* self) {
  void*& value = reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder().value_ptr();
  return reinterpret_cast<OptimizerLists*&>(value);
}

int visit_references(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (const OptimizerLists* const lists = lists_in(self)) {
    for (const py::object& reference : lists->references()) {
      Py_VISIT(reference.ptr());
    }
  }
  return 0;
}

int clear_references(PyObject* self) {
  if (OptimizerLists* const lists = lists_in(self)) {
    const OptimizerLists dropped = std::move(*lists);
  }
  return 0;
}

// Lets Python find and free a ring of an optimizer, these lists and a parameter whose hook or attribute is the
// optimizer.
void collect_garbage(PyHeapTypeObject* type) {
  type->ht_type.tp_flags |= Py_TPFLAGS_HAVE_GC;
  type->ht_type.tp_traverse = &visit_references;
  type->ht_type.tp_clear = &clear_references;
}

}  // namespace

void bind_optimizer_lists(py::module_& module) {
  const auto reference = py::return_value_policy::reference_internal;
  const auto no_gil = py::call_guard<py::gil_scoped_release>();
  py::class_<StepTensors>(module, "StepTensors")
      .def(
          py::init<at::Tensor, OptionalTensor, OptionalTensor, OptionalTensor>(),
          py::arg("lr"),
          py::arg("found_inf"),
          py::arg("grad_scale"),
          py::arg("clip_coef"))
      .def_readonly("lr", &StepTensors::lr)
      .def_readonly("found_inf", &StepTensors::found_inf)
      .def_readonly("grad_scale", &StepTensors::grad_scale)
      .def_readonly("clip_coef", &StepTensors::clip_coef);
  py::class_<Batch>(module, "Batch")
      .def_readonly("group", &Batch::group)
      .def_property_readonly("device", [](const Batch& batch) { return py::cast(batch.device); })
      .def("check_adam", &check_adam, no_gil, py::arg("tensors"), py::arg("amsgrad"))
      .def(
          "adam_step",
          &adam_step,
          no_gil,
          py::arg("tensors"),
          py::arg("beta1"),
          py::arg("beta2"),
          py::arg("weight_decay"),
          py::arg("eps"),
          py::arg("decoupled_weight_decay"),
          py::arg("maximize"),
          py::arg("amsgrad"))
      .def("check_sgd", &check_sgd, no_gil, py::arg("tensors"), py::arg("momentum"), py::arg("dampening"))
      .def(
          "sgd_step",
          &sgd_step,
          no_gil,
          py::arg("tensors"),
          py::arg("weight_decay"),
          py::arg("momentum"),
          py::arg("dampening"),
          py::arg("nesterov"),
          py::arg("maximize"));
  py::class_<OptimizerLists>(module, "OptimizerLists", py::custom_type_setup(&collect_garbage))
      .def(
          py::init<const py::dict&, const py::list&, const std::vector<std::string>&>(),
          py::arg("state"),
          py::arg("param_groups"),
          py::arg("keys"))
      .def("is_current", &OptimizerLists::is_current, py::arg("state"), py::arg("param_groups"))
      .def(
          "gather",
          [](OptimizerLists& lists) {
            lists.gather();
            return lists.active();
          },
          reference)
      .def("release", &OptimizerLists::release)
      .def_property_readonly("sparse", &OptimizerLists::sparse);
  // For kernels in Python.
  module.def("check_adam_step", &check_adam_step);
  module.def("check_sgd_step", &check_sgd_step);
}

}  // namespace polycast::python
