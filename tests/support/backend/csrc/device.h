// The device: its indices, memory, generators, and whether the host may wait for it.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

namespace mimic {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kCount = 2;

c10::DeviceIndex current_device();
// Returns the index that was current.
c10::DeviceIndex exchange_device(c10::DeviceIndex index);

c10::Allocator* allocator();

const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);
// The generator of the host that draws for one of the device.
at::Generator host_generator(const at::Generator& generator);

// What a sync does, as in torch.cuda.set_sync_debug_mode.
enum class Syncs { pass, warn, raise };

void set_syncs(Syncs mode);
Syncs syncs();

}  // namespace mimic
