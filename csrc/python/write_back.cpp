#include "python/write_back.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <vector>

#include "multi_tensor/lists.h"

namespace py = pybind11;

namespace polycast::python {

namespace {

// Where tensors are wrapped for functionalization these are its steps for an operator that writes, so that aliases and
// views follow, as with copy_.
void write_back(const std::vector<at::Tensor>& targets, const std::vector<at::Tensor>& values) {
  TORCH_CHECK_VALUE(
      targets.size() == values.size(),
      "write_back: ",
      targets.size(),
      " targets and ",
      values.size(),
      " values; pass one for each");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  multi_tensor::raise_versions(targets);
  for (size_t index = 0; index < targets.size(); ++index) {
    const at::Tensor& target = targets[index];
    if (!at::functionalization::impl::isFunctionalTensor(target)) {
      target.copy_(values[index]);
      continue;
    }
    at::functionalization::impl::propagate_xla_data(target, values[index]);
    at::functionalization::impl::replace_(target, values[index]);
    at::functionalization::impl::commit_update(target);
    at::functionalization::impl::sync(target);
  }
}

}  // namespace

void bind_write_back(py::module_& module) {
  module.def("write_back", &write_back, py::call_guard<py::gil_scoped_release>());
}

}  // namespace polycast::python
