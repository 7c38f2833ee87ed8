// Asking for memory ahead of use. The objects behind thousands of small tensors are spread over memory, and a step over
// such tensors would spend its time waiting for them one by one.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>

namespace polycast::multi_tensor {

// How many tensors ahead. There are two steps, because only a tensor knows where its storage is.
constexpr size_t prefetch_distance = 8;

inline void prefetch(const void* address, size_t bytes) {
  constexpr size_t line = 64;
  for (size_t offset = 0; offset < bytes; offset += line) {
    __builtin_prefetch(static_cast<const char*>(address) + offset);
  }
}

inline void prefetch(at::TensorList tensors, size_t index) {
  if (index < tensors.size()) {
    prefetch(tensors[index].unsafeGetTensorImpl(), sizeof(c10::TensorImpl));
  }
}

inline void prefetch_ahead(at::TensorList tensors, size_t index) {
  prefetch(tensors, index + 2 * prefetch_distance);
  if (index + prefetch_distance < tensors.size() && tensors[index + prefetch_distance].has_storage()) {
    prefetch(
        tensors[index + prefetch_distance].unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(),
        sizeof(c10::StorageImpl));
  }
}

}  // namespace polycast::multi_tensor
