// Casts of the arguments of one call.
//
// Only 16- and 32-bit floating-point tensors on the kernel's device are cast. Every other argument is returned
// unchanged: float64 because PyTorch's autocast never casts it, float8 and float4 because their values need a scale. If
// `to` is `Undefined`, nothing is cast.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "cast_cache/cache.h"

namespace polycast::autocast {

inline bool is_eligible(const at::Tensor& tensor, c10::DeviceType device) {
  if (!tensor.defined() || tensor.device().type() != device || !tensor.is_floating_point()) {
    return false;
  }
  const size_t bytes = tensor.itemsize();
  return bytes == 2 || bytes == 4;
}

inline at::Tensor cast(at::ScalarType to, const at::Tensor& tensor, c10::DeviceType device) {
  if (to == at::ScalarType::Undefined || !is_eligible(tensor, device) || tensor.scalar_type() == to) {
    return tensor;
  }
  return cast_cache::cached_cast(to, tensor, device);
}

inline std::optional<at::Tensor> cast(
    at::ScalarType to, const std::optional<at::Tensor>& tensor, c10::DeviceType device) {
  return tensor.has_value() ? std::optional<at::Tensor>(cast(to, *tensor, device)) : std::nullopt;
}

template <class Argument>
constexpr bool is_list = std::is_same_v<Argument, at::TensorList> || std::is_same_v<Argument, at::ITensorListRef>;

// Returns a list with each of its tensors cast. Returns any other argument unchanged, by reference.
template <class Argument>
decltype(auto) cast(at::ScalarType to, const Argument& argument, c10::DeviceType device) {
  if constexpr (is_list<Argument>) {
    std::vector<at::Tensor> results;
    results.reserve(argument.size());
    for (const at::Tensor& tensor : argument) {
      results.push_back(cast(to, tensor, device));
    }
    return results;
  } else {
    return (argument);
  }
}

// Updates `widest`, the widest dtype of the tensors seen so far. It is `Undefined` before the first eligible tensor.
inline void widen(at::ScalarType& widest, const at::Tensor& tensor, c10::DeviceType device) {
  if (is_eligible(tensor, device)) {
    const at::ScalarType type = tensor.scalar_type();
    widest = widest == at::ScalarType::Undefined ? type : c10::promoteTypes(widest, type);
  }
}

inline void widen(at::ScalarType& widest, const std::optional<at::Tensor>& tensor, c10::DeviceType device) {
  if (tensor.has_value()) {
    widen(widest, *tensor, device);
  }
}

template <class Argument>
void widen(at::ScalarType& widest, const Argument& argument, c10::DeviceType device) {
  if constexpr (is_list<Argument>) {
    for (const at::Tensor& tensor : argument) {
      widen(widest, tensor, device);
    }
  }
}

template <class... Arguments>
at::ScalarType widest_type(c10::DeviceType device, const Arguments&... arguments) {
  at::ScalarType widest = at::ScalarType::Undefined;
  (widen(widest, arguments, device), ...);
  return widest;
}

// Returns `to` for a dtype argument that is None, and any other argument unchanged.
inline std::optional<at::ScalarType> set_absent_dtype(at::ScalarType to, const std::optional<at::ScalarType>& dtype) {
  return dtype.has_value() ? dtype : to;
}

template <class Argument>
const Argument& set_absent_dtype(at::ScalarType /*to*/, const Argument& argument) {
  return argument;
}

template <class First, class... Rest>
const First& first_of(const First& first, const Rest&... /*rest*/) {
  return first;
}

}  // namespace polycast::autocast
