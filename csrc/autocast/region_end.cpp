#include "autocast/region_end.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <atomic>
#include <mutex>

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

// A leaf that requires grad, as torch's cache wants it, without values. Never destroyed: a cast of it can outlive
// statics.
const at::Tensor& source() {
  static const at::Tensor* const tensor = [] {
    const c10::InferenceMode off(false);
    return new at::Tensor(at::empty({0}, at::TensorOptions(at::kFloat)).set_requires_grad(true));
  }();
  return *tensor;
}

bool plant() {
  static char anything;
  const at::Tensor& leaf = source();
  const at::ScalarType to = at::autocast::get_autocast_dtype(at::kCPU);
  if (to == leaf.scalar_type()) {
    return false;
  }
  const at::AutoDispatchBelowADInplaceOrView plain;  // a cast without history is made faster
  const at::Tensor planted = at::autocast::cached_cast(to, leaf, at::kCPU);
  planted.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(&anything, &anything, &end_epoch, at::Device(at::kCPU)));
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
