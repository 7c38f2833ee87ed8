// What the recorder asks about tensors.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <utility>

namespace polycast::call_recorder {

// Calls a function with each tensor in a value, which may replace it.
template <class Visit>
void replace_tensors(c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      visit(value);
    }
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    c10::List<c10::IValue> items = value.toList();
    const auto type = items.elementType();
    c10::impl::GenericList copied(type);  // the list is the program's
    for (c10::IValue item : items.vec()) {
      replace_tensors(item, visit);
      copied.push_back(std::move(item));
    }
    value = std::move(copied);
  }
}

inline uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

inline size_t bytes_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().nbytes() : 0;
}

// Returns whether a tensor is finite; of another device's tensor, true, and sets the flag that tells.
bool is_finite(const at::Tensor& tensor, at::Tensor& flag);

}  // namespace polycast::call_recorder
