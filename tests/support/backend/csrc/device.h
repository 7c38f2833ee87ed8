// The device: its indices, memory and generators, and the detection of device syncs.
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
// Returns the CPU generator that draws the numbers of a generator of the device.
at::Generator host_generator(const at::Generator& generator);

// Sets whether device syncs raise, like torch.cuda.set_sync_debug_mode("error").
void raise_at_syncs(bool raises);

}  // namespace mimic
