// The operators of schemas.cpp as C++ functions that go through the dispatcher.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

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

}  // namespace polycast::operators
