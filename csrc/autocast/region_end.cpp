#include "autocast/region_end.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "autocast/cast_cache_slot.h"

namespace polycast::autocast {

namespace {

std::atomic<uint64_t> current{no_epoch + 1};
std::atomic<uint64_t> watched{no_epoch};
std::atomic<void (*)()> callback{nullptr};

void end_epoch(void* /*context*/) {
  ++current;
  if (void (*const call)() = callback.load()) {
    call();
  }
}

at::Storage storage(at::DataPtr data) {
  return {at::Storage::use_byte_size_t(), 0, std::move(data), nullptr, false};
}

at::Tensor tensor(at::Storage storage, c10::DispatchKey key, at::ScalarType type) {
  return at::Tensor(
      c10::make_intrusive<at::TensorImpl>(
          std::move(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(type)));
}

// What the sign's source does where torch's cache casts it.
at::Tensor make_sign(
    const at::Tensor& /*self*/,
    at::ScalarType to,
    bool /*non_blocking*/,
    bool /*copy*/,
    std::optional<at::MemoryFormat> /*memory_format*/) {
  static char anything;
  const at::Device host(at::kCPU);
  return tensor(storage(at::DataPtr(&anything, &anything, &end_epoch, host)), c10::DispatchKey::CPU, to);
}

// A leaf that requires grad, as torch's cache wants it. A true cast would take longer than all the rest, so the leaf is
// on a key that torch leaves to prototypes, and its cast is ours. Never destroyed: the cache's key can outlive statics.
const at::Tensor& source() {
  static const at::Tensor* const leaf = [] {
    static torch::Library* const library =
        new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse2, "region_end", 0);
    library->impl("to.dtype", TORCH_FN(make_sign));
    const c10::InferenceMode off(false);
    at::Tensor made = tensor(storage(at::DataPtr(nullptr, at::kCPU)), c10::DispatchKey::PrivateUse2, at::kFloat);
    return new at::Tensor(made.set_requires_grad(true));
  }();
  return *leaf;
}

bool plant() {
  const at::Tensor& leaf = source();
  const at::ScalarType to = at::autocast::get_autocast_dtype(at::kCPU);
  if (to == leaf.scalar_type()) {
    return false;
  }
  const c10::InferenceMode off(false);  // newer releases of torch cache nothing in inference mode
  const at::AutoDispatchBelowADInplaceOrView plain;
  at::autocast::cached_cast(to, leaf, at::kCPU);
  return true;
}

}  // namespace

bool in_region() {
  const int depth = at::autocast::increment_nesting() - 1;
  at::autocast::decrement_nesting();
  return depth > 0;
}

uint64_t epoch() {
  return current.load();
}

bool epoch_is_watched() {
  return watched.load() == current.load();
}

uint64_t watch_epoch() {
  static std::mutex mutex;
  if (epoch_is_watched()) {
    return epoch();
  }
  const std::lock_guard<std::mutex> lock(mutex);
  const uint64_t now = epoch();
  if (watched.load() != now) {
    // Where torch's cache is emptied meanwhile, the epoch ends as soon as it is watched, and nothing is reused in it.
    if (!plant()) {
      return no_epoch;
    }
    watched = now;
  }
  return now;
}

void on_epoch_end(void (*call)()) {
  callback = call;
}

}  // namespace polycast::autocast
