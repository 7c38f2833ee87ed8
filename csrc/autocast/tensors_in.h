// The tensors in the arguments and results of a call.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <algorithm>
#include <utility>

namespace polycast {

// Calls a function with each defined tensor in a value, which may be a tensor or a list of tensors.
template <class Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      visit(value.toTensor());
    }
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& item : value.toListRef()) {
      visit_tensors(item, visit);
    }
  }
}

// Returns the last `count` values. PyTorch reports the whole stack of a boxed call, with the values of its callers.
inline c10::ArrayRef<c10::IValue> last_of(c10::ArrayRef<c10::IValue> values, size_t count) {
  return values.slice(values.size() - std::min(count, values.size()));
}

// Calls a function with each defined tensor in a value, and replaces the tensor with the result.
template <class Replace>
void replace_tensors(c10::IValue& value, const Replace& replace) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      value = replace(value.toTensor());
    }
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    c10::impl::GenericList copied(value.toList().elementType());  // The program's list stays unchanged.
    copied.reserve(value.toListRef().size());
    for (c10::IValue item : value.toListRef()) {
      replace_tensors(item, replace);
      copied.push_back(std::move(item));
    }
    value = std::move(copied);
  }
}

}  // namespace polycast
