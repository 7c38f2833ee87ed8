// The interface of the cast cache, and the rule for reusing casts.
//
// Note [Which casts are shared?]
// By default a region shares only the casts that PyTorch shares outside of inference mode. These are casts of float32
// leaves that require grad, to the device's lower precision. Sharing more is not safe by default, so users request it
// with `polycast.cast_cache.keep`:
// - A shared cast with autograd history accumulates the gradients of all of its uses in its own dtype. This changes the
//   bits of the gradient.
// - NumPy, DLPack, `.data`, a collective or a recorded graph can refill a buffer without a new version. A shared cast
//   would have the old values.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <functional>

namespace polycast::cast_cache {

class KeptCasts;

// Casts a tensor to another dtype, or returns an earlier cast of it.
at::Tensor cached_cast(at::ScalarType to, const at::Tensor& tensor, c10::DeviceType device);

KeptCasts& kept_casts();

// Returns whether a mode, such as a compiler's, only traces the ops of the current thread.
inline bool only_traces() {
  using Modes = c10::impl::TorchDispatchModeTLS;
  using Key = c10::impl::TorchDispatchModeKey;
  const auto is_on = [](Key mode) { return Modes::get_mode(mode).has_value(); };
  return Modes::any_modes_set() && (is_on(Key::FAKE) || is_on(Key::PROXY) || is_on(Key::FUNCTIONAL));
}

// A function that returns whether the current thread records the device's work as a graph, to replay it later. During a
// recording, kept casts are neither used nor created, because they outlive the recording.
using RecordingProbe = std::function<bool()>;
void set_recording_probe(c10::DeviceType device, RecordingProbe probe);

}  // namespace polycast::cast_cache
