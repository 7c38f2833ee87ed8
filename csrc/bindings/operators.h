// The operators of schemas.cpp as C++ functions that go through the dispatcher.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "kernels/steps.h"

namespace polycast::operators {

using FindNonFinite = std::tuple<at::Tensor, at::Tensor>(at::TensorList);
using Norm = std::tuple<at::Tensor, at::Tensor, at::Tensor>(at::TensorList, double);
using UpdateScale = void(at::Tensor&, at::Tensor&, const at::Tensor&, double, double, int64_t, double, double);
using Unscale = at::Tensor(at::TensorList, at::Tensor&, const at::Tensor&);

template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

// Whether a tensor is on the CPU, and nothing but a kernel's business.
inline bool is_plain(const at::Tensor& tensor) {
  const c10::DispatchKeySet above = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  return tensor.key_set() - above == c10::DispatchKeySet(c10::DispatchKey::CPU);
}

inline c10::DispatchKeySet keys_of(const at::Tensor& tensor) {
  return tensor.key_set();
}

inline c10::DispatchKeySet keys_of(at::TensorList tensors) {
  return tensors.empty() ? c10::DispatchKeySet() : tensors[0].key_set();
}

// Calls an operator. Where all of its tensors are plain the dispatcher need not look at each of them, unless somebody
// listens. A backend's kernels may stand on its autograd key, which inference mode leaves out: they are called by it.
template <class Return, class... Parameters, class First, class... Rest>
Return call(const c10::TypedOperatorHandle<Return(Parameters...)>& op, bool all_plain, First& first, Rest&... rest) {
  const auto& thread = c10::impl::tls_local_dispatch_key_set();
  const bool observed = !(thread.included_ - c10::default_included_set).empty() ||
                        c10::impl::TorchDispatchModeTLS::any_modes_set() || at::hasCallbacks();
  if (all_plain && !observed) {
    return op.redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), first, rest...);
  }
  const at::NoGradGuard no_grad;
  const c10::DispatchKeySet keys = keys_of(first);
  if (c10::InferenceMode::is_enabled() && keys.has_backend(keys.highestBackendKey())) {
    const c10::DispatchKeySet autograd = c10::getAutogradRelatedKeySetFromBackend(keys.highestBackendKey());
    if (op.hasKernelForDispatchKey(autograd.highestPriorityTypeId())) {
      return op.redispatch(autograd, first, rest...);
    }
  }
  return op.call(first, rest...);
}

}  // namespace polycast::operators
