// The operators of schemas.cpp as C++ functions that go through the dispatcher.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

namespace polycast::operators {

using OptionalTensor = std::optional<at::Tensor>;

using AdamStep = void(
    at::TensorList,
    at::TensorList,
    at::TensorList,
    at::TensorList,
    at::TensorList,
    at::TensorList,
    const at::Tensor&,
    double,
    double,
    double,
    double,
    bool,
    bool,
    const OptionalTensor&,
    const OptionalTensor&,
    const OptionalTensor&);
using SgdStep = void(
    at::TensorList,
    at::TensorList,
    at::TensorList,
    at::TensorList,
    const at::Tensor&,
    double,
    double,
    double,
    bool,
    bool,
    const OptionalTensor&,
    const OptionalTensor&,
    const OptionalTensor&);
using Check = std::tuple<at::Tensor, at::Tensor>(at::TensorList);
using Norm = std::tuple<at::Tensor, at::Tensor, at::Tensor>(at::TensorList, double);
using Unscale = at::Tensor(at::TensorList, at::Tensor&, const at::Tensor&);

template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

// Calls an operator on lists of tensors that are of the kind of the first one. On the host the dispatcher then need not
// look at each of them: the kernel does.
template <class Return, class... Parameters, class... Arguments>
Return call(const c10::TypedOperatorHandle<Return(Parameters...)>& op, at::TensorList first, Arguments&... arguments) {
  const auto& thread = c10::impl::tls_local_dispatch_key_set();
  const bool observed = !(thread.included_ - c10::default_included_set).empty() ||
                        c10::impl::TorchDispatchModeTLS::any_modes_set() || at::hasCallbacks();
  const c10::DispatchKeySet above = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  const c10::DispatchKeySet plain(c10::DispatchKey::CPU);
  if (observed || first.empty() || first[0].key_set() - above != plain) {
    return op.call(arguments...);
  }
  return op.redispatch(plain, arguments...);
}

}  // namespace polycast::operators
