#include "cast_cache/cache.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <array>
#include <atomic>
#include <utility>

#include "cast_cache/kept_casts.h"
#include "cast_cache/region.h"
#include "process_state.h"

namespace polycast::cast_cache {

namespace {

std::atomic<const RecordingProbe*>& probe_of(c10::DeviceType device) {
  constexpr auto count = static_cast<size_t>(c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES);
  static std::array<std::atomic<const RecordingProbe*>, count> all;
  return all[static_cast<size_t>(device)];
}

// See Note [Which casts are shared?].
bool is_shared_by_default(at::ScalarType to, const at::Tensor& tensor, c10::DeviceType device) {
  return tensor.requires_grad() && tensor.scalar_type() == at::kFloat && to == at::autocast::get_autocast_dtype(device);
}

// A stored cast is a normal tensor, because an inference tensor counts no versions and cannot be saved for backward. In
// inference mode, casts of functional tensors are the exception: PyTorch cannot view a normal tensor there.
Mode mode_of_cast(const at::Tensor& tensor) {
  if (c10::InferenceMode::is_enabled()) {
    return tensor.key_set().has(c10::DispatchKey::Functionalize) ? Mode::inference : Mode::plain;
  }
  return tensor.requires_grad() && c10::GradMode::is_enabled() ? Mode::history : Mode::plain;
}

// The keys that every dispatch mode includes.
constexpr c10::DispatchKeySet mode_keys({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});

// Returns whether the current thread records the device's work as a graph. The probe calls Python, so it is used only
// for casts that may be kept.
bool is_recorded(c10::DeviceType device) {
  const RecordingProbe* const probe = probe_of(device).load();
  return probe != nullptr && (*probe)();
}

// Returns whether a transform, a tracer or a compiler is active. While one is active, casts are neither reused nor
// stored.
bool is_traced() {
  const c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  return (included.raw_repr() & ~(c10::default_included_set | mode_keys).raw_repr()) != 0 || only_traces();
}

int64_t current_stream(c10::Device device) {
  if (device.is_cpu() || !c10::impl::hasDeviceGuardImpl(device.type())) {
    return 0;
  }
  return c10::impl::getDeviceGuardImpl(device.type())->getStream(device).id();
}

at::Tensor plain_cast(at::ScalarType to, const at::Tensor& tensor) {
  const c10::InferenceMode normal(false);
  const at::NoGradGuard no_grad;
  return tensor.to(to);
}

Entry make_entry(TensorSnapshot source, const at::Tensor& tensor, const Kind& kind) {
  return {kind, std::move(source), kind.mode == Mode::plain ? plain_cast(kind.to, tensor) : tensor.to(kind.to)};
}

at::Tensor shared_in_region(const at::Tensor& tensor, const Kind& kind) {
  const c10::intrusive_ptr<RegionCasts> casts = region_casts();
  if (!casts) {
    return tensor.to(kind.to);
  }
  Entries& entries = casts->of[tensor.unsafeGetTensorImpl()];
  if (const Entry* const entry = find(entries, tensor, kind)) {
    return entry->cast;
  }
  if (!kept_casts().empty()) {
    kept_casts().mark_again(tensor);
  }
  const Entry entry = make_entry(TensorSnapshot(tensor), tensor, kind);
  if (is_plain(entry.cast)) {  // A dispatch mode may return a tensor of any kind.
    put(entries, entry);
  }
  return entry.cast;
}

}  // namespace

at::Tensor cached_cast(at::ScalarType to, const at::Tensor& tensor, c10::DeviceType device) {
  const Mode mode = mode_of_cast(tensor);
  const bool shared = is_shared_by_default(to, tensor, device);
  // A user's dispatch mode must see the casts of stock PyTorch, so kept casts are neither used nor created under it.
  const bool may_be_kept = mode != Mode::history && !kept_casts().empty() &&
                           !c10::impl::TorchDispatchModeTLS::any_modes_set() && !is_recorded(device);
  if (!(shared || may_be_kept) || !at::autocast::is_autocast_cache_enabled() || obstacle(tensor) != nullptr ||
      is_traced()) {
    return tensor.to(to);
  }
  const Kind kind{to, mode, current_stream(tensor.device())};
  if (may_be_kept) {
    KeptCasts::Found found = kept_casts().find(tensor, kind);
    if (found.cast.defined()) {
      return found.cast;
    }
    if (found.missing) {
      const Entry entry = make_entry(*std::move(found.missing), tensor, kind);
      kept_casts().insert(tensor, entry);
      return entry.cast;
    }
  }
  return shared ? shared_in_region(tensor, kind) : tensor.to(to);
}

KeptCasts& kept_casts() {
  return process_state<KeptCasts>();
}

void set_recording_probe(c10::DeviceType device, RecordingProbe probe) {
  // A probe is never freed, because another thread may be calling it.
  probe_of(device) = probe ? new RecordingProbe(std::move(probe)) : nullptr;
}

}  // namespace polycast::cast_cache
