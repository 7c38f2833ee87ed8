#include "kernels/torch_kernels.h"

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace polycast::multi_tensor {

namespace {

std::array<std::atomic<bool>, c10::COMPILE_TIME_MAX_DEVICE_TYPES> trusted;

}  // namespace

void trust_torch_kernels(const std::vector<std::string>& device_types) {
  std::fill(trusted.begin(), trusted.end(), false);
  for (const std::string& type : device_types) {
    trusted[static_cast<size_t>(c10::Device(type).type())] = true;
  }
}

bool has_torch_kernels(const at::Tensor& tensor) {
  // A fake tensor keeps the keys of its device while it is computed with as one of meta.
  const c10::DispatchKey key =
      c10::toRuntimePerBackendFunctionalityKey(c10::DispatchKey::Dense, tensor.key_set().highestBackendKey());
  return trusted[static_cast<size_t>(c10::dispatchKeyToDeviceType(key))];
}

}  // namespace polycast::multi_tensor
