// The interface of the cast cache, and the rule for reusing casts.
//
// Note [Which casts are shared?]
// By default a region shares the casts that PyTorch shares: the cast of a float32 leaf that requires grad to the lower
// precision of its device. Sharing more is not safe by default:
// - A shared cast with autograd history accumulates the gradients of all of its uses in its own dtype, which changes
//   the bits of the gradient.
// - NumPy, DLPack, `.data`, a collective or a recorded graph can refill a buffer without a new version. A shared cast
//   would have the old values. Users share more casts with `polycast.cast_cache.keep`.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include <functional>

namespace polycast::cast_cache {

class KeptCasts;

// Casts a tensor to another dtype, or returns an earlier cast of it.
at::Tensor cached_cast(at::ScalarType to, const at::Tensor& tensor, c10::DeviceType device);

KeptCasts& kept_casts();

// Sets whether casts are reused on a device type, which policy.yaml states for the installed device.
void allow(c10::DeviceType device, bool allowed);

// A function that returns whether the current thread records the device's work as a graph, to replay it later. During a
// recording, kept casts are neither used nor created, because they outlive the recording.
using RecordingProbe = std::function<bool()>;
void set_recording_probe(c10::DeviceType device, RecordingProbe probe);

}  // namespace polycast::cast_cache
