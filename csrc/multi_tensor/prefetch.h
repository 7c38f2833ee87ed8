// Prefetches the objects of tensors. The objects of thousands of small tensors are spread over memory, and a step would
// spend its time waiting for each.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>

namespace polycast::multi_tensor {

// The distance in tensors. There are two stages, because the address of a storage is in the tensor.
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
