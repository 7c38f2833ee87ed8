// The cast cache: which casts are reused, and what can be said to it from outside.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>

#include "autocast/cast_cache_core.h"
#include "autocast/cast_source.h"

namespace polycast::autocast {

CastTable<TensorTraits>& cast_table();

// Has every hit compared with a fresh cast.
void verify_casts(bool enabled);

// Drops what belongs to regions that ended and to tensors that died.
void sweep_casts();

// Whether casts are reused on a device at all; the column of the policy that is installed for it says so.
void allow_cast_cache(c10::DeviceType device, bool allowed);

// Tells whether the current thread records the device's work, to be run again later: a cast that is recorded must not
// be taken out of the recording, nor one from outside be put into it.
using RecordingProbe = bool (*)(c10::DeviceType device);
void set_recording_probe(c10::DeviceType device, RecordingProbe probe);

}  // namespace polycast::autocast
