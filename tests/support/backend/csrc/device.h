// The device: its indices, memory, generators, and whether the host may wait for it.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

namespace mimic {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kCount = 2;

c10::DeviceIndex current_device();
c10::Allocator* allocator();

const at::Generator& default_generator(c10::DeviceIndex index);
// The generator of the host that draws for one of the device.
at::Generator host_generator(const at::Generator& generator);

// Whether the host may not wait for the device, as torch.cuda.set_sync_debug_mode("error") says.
void raise_at_syncs(bool raises);

}  // namespace mimic
