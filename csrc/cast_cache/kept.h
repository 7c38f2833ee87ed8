// The table of kept casts, which outlive regions.
//
// No lock is held while a cast is made or destroyed, because either can run code that comes back here.
#pragma once

#include <c10/core/DeviceType.h>

#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "cast_cache/entry.h"

namespace polycast::cast_cache {

// Counters of one device type: the casts that are stored now, and the events so far.
struct Tally {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t stored = 0;
};

using Tallies = std::array<Tally, static_cast<size_t>(c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES)>;

class KeptCasts {
 public:
  static constexpr size_t no_limit = std::numeric_limits<size_t>::max();

  // Whether no tensor is kept.
  bool empty() const {
    return size_.load(std::memory_order_relaxed) == 0;
  }

  // Starts to keep the casts of a tensor. The name is used in messages.
  void keep(const at::Tensor& tensor, std::string name);

  // Drops the casts of the tensor at an address. With `release` its later casts are not kept either.
  void forget(const void* address, bool release);

  // Looks a cast up. `cast` is undefined if there is none. Then `missing` is the state of a tensor that is kept, for
  // the entry to be inserted; it is read before the cast is made, because another thread may write in between.
  struct Found {
    std::optional<Source> missing;
    at::Tensor cast;
  };
  Found find(const at::Tensor& tensor, const Kind& kind);

  // Marks a tensor if its casts are kept: see Note [Assignments to .data].
  void mark_again(const at::Tensor& tensor);

  // Stores a cast, if the casts of the tensor are still kept.
  void insert(const at::Tensor& tensor, Entry entry);

  void clear();

  // Limits the bytes of all casts together. The least recently used are dropped first.
  void limit(size_t bytes);

  std::string name_of(const void* address);
  Tallies tallies();

 private:
  struct Kept {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;  // keeps another tensor from getting this address
    std::string name;
    Entries entries;
  };

  void enforce_limit(Entries& dropped);
  Tally& tally_of(const at::Tensor& tensor);

  std::mutex mutex_;
  std::unordered_map<const void*, Kept> sources_;
  std::atomic<size_t> size_{0};  // that of sources_, read without the lock
  Tallies tallies_{};            // without entries and bytes, which tallies() counts
  size_t limit_ = no_limit;
  uint64_t uses_ = 0;
};

}  // namespace polycast::cast_cache
