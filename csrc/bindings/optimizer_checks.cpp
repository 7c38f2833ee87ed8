// Checks of lists of tensors, which Python calls before it passes them to an operator.
#include "bindings/bindings.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <vector>

#include "multi_tensor/checks.h"
#include "multi_tensor/optimizer_args.h"
#include "multi_tensor/scale_checks.h"
#include "multi_tensor/tensor_memory.h"

namespace py = pybind11;

namespace polycast::bindings {

namespace {

using optim::OptionalTensor;
using Lists = std::vector<std::vector<at::Tensor>>;

// Whether a tensor's memory holds its values, which are real: it is strided, no negative view, and of no subclass.
bool is_plain(const at::Tensor& tensor) {
  using Key = c10::DispatchKey;
  constexpr c10::DispatchKeySet unusual({Key::Python, Key::Conjugate, Key::Negative, Key::ZeroTensor});
  return !tensor.key_set().has_any(unusual) && tensor.layout() == at::kStrided && !tensor.is_complex();
}

// Whether operators can take the lists as they are: plain tensors of one device. Those of the first list are written,
// and share no memory.
bool all_plain(const std::vector<py::list>& lists) {
  std::optional<c10::Device> device;
  multi_tensor::Overlaps overlaps(lists.empty() ? 0 : lists[0].size());
  for (const py::list& list : lists) {
    const Py_ssize_t count = PyList_GET_SIZE(list.ptr());
    for (Py_ssize_t index = 0; index < count; ++index) {
      PyObject* const object = PyList_GET_ITEM(list.ptr(), index);
      if (!THPVariable_Check(object)) {
        return false;
      }
      const at::Tensor& tensor = THPVariable_Unpack(object);
      device = device.value_or(tensor.device());
      if (!is_plain(tensor) || tensor.device() != *device) {
        return false;
      }
      if (&list == lists.data()) {
        overlaps.add(tensor);
      }
    }
  }
  return !overlaps.any();
}

// Whether the parameters that have gradients, and these, are still those that were collected.
bool same_gradients(const py::handle& params, const py::list& with_gradients, const py::list& grads) {
  const Py_ssize_t count = PyList_GET_SIZE(with_gradients.ptr());
  Py_ssize_t next = 0;
  for (Py_ssize_t index = 0; PyList_Check(params.ptr()) && index < PyList_GET_SIZE(params.ptr()); ++index) {
    PyObject* const param = PyList_GET_ITEM(params.ptr(), index);
    if (!THPVariable_Check(param)) {
      return false;
    }
    const at::Tensor& grad = std::as_const(*THPVariable_Unpack(param).unsafeGetTensorImpl()).grad();
    if (!grad.defined()) {
      continue;
    }
    if (next == count || PyList_GET_ITEM(with_gradients.ptr(), next) != param ||
        !grad.is_same(THPVariable_Unpack(PyList_GET_ITEM(grads.ptr(), next)))) {
      return false;
    }
    ++next;
  }
  return next == count;
}

// Raises what a step would raise for its lists and scalars. With a name the message names the parameter, too.
void check_adam_step(
    const Lists& lists,
    const at::Tensor& lr,
    const OptionalTensor& found_inf,
    const OptionalTensor& grad_scale,
    const OptionalTensor& clip_coef,
    const multi_tensor::Names& name) {
  optim::check(
      optim::adam_lists(lists.at(0), lists.at(1), lists.at(2), lists.at(3), lists.at(4), lists.at(5)),
      {lr, found_inf, grad_scale, clip_coef},
      name);
}

void check_sgd_step(
    const Lists& lists,
    const at::Tensor& lr,
    const OptionalTensor& found_inf,
    const OptionalTensor& grad_scale,
    const OptionalTensor& clip_coef,
    const multi_tensor::Names& name) {
  optim::check(optim::sgd_lists(lists.at(0), lists.at(1), lists.at(2)), {lr, found_inf, grad_scale, clip_coef}, name);
}

void check_gradients(
    const char* op, const std::vector<at::Tensor>& grads, bool written, const multi_tensor::Names& name) {
  multi_tensor::check_lists(op, {{"grads", grads, written}}, name);
}

void check_tensors(const char* op, const std::vector<at::Tensor>& tensors) {
  scale::check_not_empty(op, tensors);
  scale::check_tensors(op, tensors);
}

void check_norm(const std::vector<at::Tensor>& tensors, double norm_type) {
  scale::check_not_empty("norm", tensors);
  scale::check_norm_type(norm_type);
  scale::check_tensors("norm", tensors);
}

void check_unscale(const std::vector<at::Tensor>& grads, const at::Tensor& found_inf, const at::Tensor& inv_scale) {
  scale::check_unscale(grads, found_inf, inv_scale);
}

bool may_overlap(const std::vector<at::Tensor>& tensors) {
  return multi_tensor::may_overlap(tensors);
}

}  // namespace

void bind_optimizer_checks(py::module_& module) {
  module.def("all_plain", &all_plain);
  module.def("same_gradients", &same_gradients);
  const auto def_check = [&module](const char* name, const auto& check) {
    module.def(
        name,
        check,
        py::arg("lists"),
        py::arg("lr"),
        py::arg("found_inf"),
        py::arg("grad_scale"),
        py::arg("clip_coef"),
        py::arg("name") = py::none());
  };
  def_check("check_adam_step", &check_adam_step);
  def_check("check_sgd_step", &check_sgd_step);
  module.def("check_gradients", &check_gradients);
  module.def("check_tensors", &check_tensors);
  module.def("check_norm", &check_norm);
  module.def("check_unscale", &check_unscale);
  module.def("check_update_scale", &scale::check_update);
  module.def("may_overlap", &may_overlap);
}

}  // namespace polycast::bindings
