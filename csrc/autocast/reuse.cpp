#include "autocast/reuse.h"

#include <algorithm>

#include "autocast/cast_cache_slot.h"

namespace polycast::autocast {

namespace {

constexpr size_t mark_count = 4096;  // a power of two; sources that share a mark only take longer to be stored
constexpr uint32_t most_patience = 16;

}  // namespace

ReuseDetector::Mark& ReuseDetector::mark_of(const void* address, at::ScalarType to) {
  if (marks_.empty()) {
    marks_ = std::vector<Mark>(mark_count);
  }
  const uint64_t mixed = (reinterpret_cast<uintptr_t>(address) + static_cast<uint64_t>(to)) * 0x9E3779B97F4A7C15ULL;
  return marks_[mixed >> 52];
}

ReuseDetector::Advice ReuseDetector::note(
    const c10::intrusive_ptr<c10::TensorImpl>& source, at::ScalarType to, uint64_t epoch) {
  Mark& mark = mark_of(source.get(), to);
  const uint32_t version = source->version_counter().current_version();
  const bool again = mark.source._unsafe_get_target() == source.get() && mark.version == version && mark.to == to &&
                     mark.epoch == epoch;
  if (!again) {
    if (mark.source._unsafe_get_target() != source.get()) {
      mark.source = c10::weak_intrusive_ptr<c10::TensorImpl>(source);
    }
    mark.version = version;
    mark.to = to;
    mark.epoch = epoch;
    mark.times = 1;
    return Advice::cast;
  }
  if (epoch != no_epoch) {
    patience_ = 2;
    return Advice::store;
  }
  if (++mark.times < patience_) {
    return Advice::cast;
  }
  patience_ = std::min(patience_ * 2, most_patience);
  return Advice::watch;
}

}  // namespace polycast::autocast
