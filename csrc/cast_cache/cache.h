// The cast cache: which casts are reused, and its interface.
//
// Note [What is shared]
// By default a region shares what torch's autocast shares: the cast of a float32 leaf that requires grad to the lower
// precision of its device. Sharing more is not safe by default:
// - A shared cast with autograd history accumulates the gradients of all of its uses in its own dtype. That changes
//   their bits.
// - A buffer can be refilled without a trace (by NumPy, DLPack, `.data`, a collective or a recorded graph). A shared
//   cast would serve its old values.
// Users ask for more with `keep`.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

namespace polycast::cast_cache {

class KeptCasts;

constexpr auto device_types = static_cast<size_t>(c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES);

// Casts a tensor to another dtype, or returns an earlier cast of it.
at::Tensor cached_cast(at::ScalarType to, const at::Tensor& tensor, c10::DeviceType device);

KeptCasts& kept_casts();

// Sets whether casts are reused on a device at all. The installed device of policy.yaml decides that.
void allow(c10::DeviceType device, bool allowed);

// Returns whether the current thread records the device's work as a graph, to replay it later. Kept casts are neither
// used nor made inside of a recording, because they outlive it.
using RecordingProbe = bool (*)(c10::DeviceType device);
void set_recording_probe(c10::DeviceType device, RecordingProbe probe);

}  // namespace polycast::cast_cache
