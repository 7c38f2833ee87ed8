#include "autocast/reuse.h"

#include <algorithm>

#include "autocast/cast_cache_slot.h"

namespace polycast::autocast {

namespace {

constexpr size_t group = 4;  // marks among which that of a source is
constexpr size_t groups = 1024;
constexpr uint32_t most_patience = 8;

}  // namespace

ReuseDetector::Mark& ReuseDetector::mark_of(const void* address, at::ScalarType to) {
  if (marks_.empty()) {
    marks_ = std::vector<Mark>(group * groups);
  }
  const uint64_t mixed = (reinterpret_cast<uintptr_t>(address) + static_cast<uint64_t>(to)) * 0x9E3779B97F4A7C15ULL;
  Mark* const first = &marks_[(mixed >> 54) * group];
  Mark* chosen = first + ++victim_ % group;
  for (Mark* mark = first; mark != first + group; ++mark) {
    if (mark->source == address && mark->to == to) {
      return *mark;
    }
    if (mark->storage.expired()) {
      chosen = mark;
    }
  }
  return *chosen;
}

ReuseDetector::Advice ReuseDetector::note(const c10::TensorImpl& source, at::ScalarType to, uint64_t epoch) {
  Mark& mark = mark_of(&source, to);
  const uint32_t version = source.version_counter().current_version();
  const at::Storage& storage = source.unsafe_storage();
  const bool same_storage = mark.storage._unsafe_get_target() == storage.unsafeGetStorageImpl();
  if (!same_storage || mark.source != &source || mark.version != version || mark.to != to || mark.epoch != epoch) {
    if (!same_storage) {
      mark.storage = storage.getWeakStorageImpl();
    }
    mark.source = &source;
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
