// The kernels that torch has for whole lists of tensors, on the device that a call would reach.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace polycast::multi_tensor {

// Whether torch has a kernel of its own for this operator where such a tensor lies. A fake one lies on the meta device.
inline bool has_torch_kernel(const char* op, const char* overload, const at::Tensor& tensor) {
  const auto handle = c10::Dispatcher::singleton().findOp({op, overload});
  const c10::DispatchKeySet keys =
      c10::impl::computeDispatchKeySet(tensor.key_set(), c10::DispatchKeySet(c10::DispatchKeySet::FULL));
  const c10::DispatchKey backend =
      c10::toRuntimePerBackendFunctionalityKey(c10::DispatchKey::Dense, keys.highestBackendKey());
  return handle.has_value() && handle->hasKernelForDispatchKey(backend);
}

}  // namespace polycast::multi_tensor
