// The writes to lists of tensors for Python kernels, which compute their results out of place.
#include "bindings/bindings.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <vector>

#include "multi_tensor/tensor_memory.h"

namespace py = pybind11;

namespace polycast::bindings {

namespace {

// Writes the values to the targets. Targets that are wrapped for functionalization need the steps of PyTorch's in-place
// operators, so that their aliases and views change as well.
void write_back(const std::vector<at::Tensor>& targets, const std::vector<at::Tensor>& values) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (size_t index = 0; index < targets.size(); ++index) {
    const at::Tensor& target = targets[index];
    const at::Tensor& value = values.at(index);
    if (!at::functionalization::impl::isFunctionalTensor(target)) {
      target.copy_(value);
      continue;
    }
    at::functionalization::impl::propagate_xla_data(target, value);
    at::functionalization::impl::replace_(target, value);
    at::functionalization::impl::commit_update(target);
    at::functionalization::impl::sync(target);
  }
  multi_tensor::raise_versions(targets);
}

bool is_expanded(const at::Tensor& tensor) {
  namespace impl = at::functionalization::impl;
  if (!impl::isFunctionalTensor(tensor) || impl::unsafeGetFunctionalWrapper(tensor)->isBaseTensor()) {
    return false;
  }
  auto* const storage =
      static_cast<at::functionalization::FunctionalStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
  // Sizes are compared in bytes, because complex memory may be viewed as real.
  return storage->base().nbytes() < static_cast<size_t>(std::max<int64_t>(tensor.numel(), 2)) * tensor.itemsize();
}

// Gives memory of their own to expanded tensors that are wrapped for functionalization. Autograd can create expanded
// gradients, but the strides of a wrapped gradient do not show the expansion. Writes to its elements would add up.
void own_memory(const std::vector<at::Tensor>& tensors) {
  for (at::Tensor tensor : tensors) {
    if (is_expanded(tensor)) {
      at::functionalization::impl::sync(tensor);
      const at::Tensor& value = at::functionalization::impl::from_functional_tensor(tensor);
      tensor.set_data(at::functionalization::impl::to_functional_tensor(value));
    }
  }
}

}  // namespace

void bind_functionalization(py::module_& module) {
  module.def("write_back", &write_back, py::call_guard<py::gil_scoped_release>());
  module.def("own_memory", &own_memory, py::call_guard<py::gil_scoped_release>());
}

}  // namespace polycast::bindings
