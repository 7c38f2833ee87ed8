// The cast cache: which casts are reused, and what can be said to it from outside.
//
// Note [What is shared]
// Unasked a region shares what torch's autocast shares: the cast of a float32 leaf that requires grad to the lower
// precision of its device. Any other sharing with history changes bits of the gradients, which add up in the one cast
// of a leaf, in its type; any other without it can serve the old values of a buffer that was refilled without a trace:
// by NumPy, DLPack, `.data`, a collective or a recorded graph. Whoever wants more asks for it by name: `keep`.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

namespace polycast::cast_cache {

class KeptCasts;

// Casts a tensor to another type, or returns a cast that was made before.
at::Tensor cached_cast(at::ScalarType to, const at::Tensor& tensor, c10::DeviceType device);

KeptCasts& kept_casts();

// Has every cast that is reused compared with a fresh one.
void verify(bool enabled);

// Whether casts are reused on a device at all; the column of the policy that is installed for it says so.
void allow(c10::DeviceType device, bool allowed);

// Tells whether the current thread records the device's work, to be run again later: a cast that is recorded must not
// be taken out of the recording, nor one from outside be put into it.
using RecordingProbe = bool (*)(c10::DeviceType device);
void set_recording_probe(c10::DeviceType device, RecordingProbe probe);

}  // namespace polycast::cast_cache
