#include "autocast/cast_cache.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

#include "autocast/casts.h"
#include "autocast/kernel.h"
#include "autocast/region_end.h"

namespace polycast::autocast {

namespace {

struct DeviceSwitches {
  std::atomic<bool> allowed{true};
  std::atomic<RecordingProbe> probe{nullptr};
};

DeviceSwitches& switches(c10::DeviceType device) {
  static std::array<DeviceSwitches, TensorTraits::devices> all;
  return all[static_cast<size_t>(device)];
}

std::atomic<bool> verifying{false};

uint64_t thread_number() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t number = ++last;
  return number;
}

bool is_recording(c10::DeviceType device) {
  const RecordingProbe probe = switches(device).probe.load(std::memory_order_relaxed);
  return probe != nullptr && probe(device);
}

// Work that is queued on two streams is not ordered, so a cast serves the stream that it was made on.
int64_t current_stream(c10::Device device) {
  if (device.is_cpu() || !c10::impl::hasDeviceGuardImpl(device.type())) {
    return 0;
  }
  return c10::impl::getDeviceGuardImpl(device.type())->getStream(device).id();
}

// The casts that are shared unasked are those that torch shares. Any other sharing with history changes bits of the
// gradients, which add up in the one cast of a leaf, in its type; any other without it can serve the old values of a
// buffer that was refilled without a trace.
bool shares_in_region(at::ScalarType to, const at::Tensor& tensor, c10::DeviceType device) {
  return tensor.requires_grad() && tensor.scalar_type() == at::kFloat && to == lower_precision(device);
}

// A cast that is stored is a normal tensor, since an inference tensor counts no versions and could not be saved for a
// backward pass later on. But no view of a normal functional tensor can be made in inference mode.
bool takes_stored_casts(const at::Tensor& tensor) {
  return !c10::InferenceMode::is_enabled() || !tensor.key_set().has(c10::DispatchKey::Functionalize);
}

at::Tensor cast_without_history(at::ScalarType to, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  if (!c10::InferenceMode::is_enabled()) {
    return tensor.to(to);
  }
  const c10::InferenceMode normal(false);
  const at::NoGradGuard still_no_grad;
  return tensor.to(to);
}

void verify(const at::Tensor& cast, const at::Tensor& source, const TensorView& view) {
  const auto bits = [](const at::Tensor& tensor) { return tensor.detach().cpu().reshape(-1).view(at::kByte); };
  const at::Tensor fresh = cast_without_history(cast.scalar_type(), source);
  if (bits(fresh).equal(bits(cast))) {
    return;
  }
  const std::string name = cast_table().name_of(view.address());
  TORCH_CHECK(
      false,
      "the cast of ",
      name.empty() ? c10::str("a tensor of shape ", source.sizes()) : "'" + name + "'",
      " to ",
      cast.scalar_type(),
      " that polycast reuses is not that of its values now: they were changed in a way that leaves no trace, as "
      "through "
      ".data or a raw pointer; change the tensor itself, or call polycast.cast_cache.release on it");
}

// The epoch up to which all that is over was dropped.
std::atomic<uint64_t> swept{no_epoch};

// The state of the source is taken before its values: another thread may write between the two.
at::Tensor stored(const at::Tensor& tensor, const TensorView& view, const CastKind& kind, uint64_t in_epoch) {
  if (in_epoch != no_epoch && swept.load(std::memory_order_relaxed) != in_epoch) {
    sweep_casts();
  }
  TensorState state = view.hold();
  KeptCast cast(kind.history ? tensor.to(kind.to) : cast_without_history(kind.to, tensor));
  return cast_table().insert(view, std::move(state), kind, std::move(cast), in_epoch).tensor();
}

}  // namespace

at::Tensor cached_cast(at::ScalarType to, const at::Tensor& tensor, c10::DeviceType device) {
  const bool shared = shares_in_region(to, tensor, device) && in_region();
  const bool history = tensor.requires_grad() && c10::GradMode::is_enabled() && !c10::InferenceMode::is_enabled();
  if ((!shared && (history || cast_table().empty())) || opaque(tensor) != nullptr ||
      !at::autocast::is_autocast_cache_enabled() || !switches(device).allowed.load(std::memory_order_relaxed) ||
      !takes_stored_casts(tensor) || !unobserved() || is_recording(device)) {
    return tensor.to(to);
  }
  const TensorView view(tensor);
  CastKind kind{to, history, current_stream(tensor.device()), thread_number()};
  const Found<TensorTraits> found = cast_table().find(view, kind, shared ? epoch() : no_epoch);
  if (found.cast.has_value()) {
    if (verifying.load(std::memory_order_relaxed)) {
      verify(found.cast->tensor(), tensor, view);
    }
    return found.cast->tensor();
  }
  if (found.kept && !history) {
    kind.thread = 0;
    return stored(tensor, view, kind, no_epoch);
  }
  const uint64_t region = shared ? watch_epoch() : no_epoch;
  return region == no_epoch ? tensor.to(to) : stored(tensor, view, kind, region);
}

CastTable<TensorTraits>& cast_table() {
  // Never destroyed: a device's runtime may be gone by the time that static objects are.
  static auto* const table = new CastTable<TensorTraits>;
  return *table;
}

void verify_casts(bool enabled) {
  verifying = enabled;
}

void sweep_casts() {
  const uint64_t now = epoch();
  swept = now;
  cast_table().sweep(now);
}

void allow_cast_cache(c10::DeviceType device, bool allowed) {
  switches(device).allowed = allowed;
}

void set_recording_probe(c10::DeviceType device, RecordingProbe probe) {
  switches(device).probe = probe;
}

}  // namespace polycast::autocast
