// Checks of lists of tensors, and of the arguments of an operator, for Python.
#include "bindings/bindings.h"

#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <string>
#include <vector>

#include "multi_tensor/op_arguments.h"
#include "multi_tensor/tensor_memory.h"

namespace py = pybind11;

namespace polycast::bindings {

namespace {

// Returns whether a tensor's memory contains its values. The tensor must be strided and not complex, and must not be a
// negative view, a zero tensor or a Python subclass.
bool is_plain(const at::Tensor& tensor) {
  using Key = c10::DispatchKey;
  constexpr c10::DispatchKeySet unusual({Key::Python, Key::Conjugate, Key::Negative, Key::ZeroTensor});
  return !tensor.key_set().has_any(unusual) && tensor.layout() == at::kStrided && !tensor.is_complex();
}

// Returns whether the lists have only plain tensors on one device, and the tensors of the first list share no memory.
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

// Raises the error, if any, that the operator would raise for its lists and scalars.
void check_arguments(
    const std::string& op,
    const std::vector<std::vector<at::Tensor>>& lists,
    const std::vector<multi_tensor::OptionalTensor>& scalars) {
  multi_tensor::check({multi_tensor::OpArguments::of(op), {lists.begin(), lists.end()}, scalars});
}

}  // namespace

void bind_optimizer_checks(py::module_& module) {
  module.def("all_plain", &all_plain);
  module.def("may_overlap", [](const std::vector<at::Tensor>& tensors) { return multi_tensor::may_overlap(tensors); });
  module.def("check_arguments", &check_arguments);
}

}  // namespace polycast::bindings
