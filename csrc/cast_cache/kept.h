// The table of the casts that outlive regions, for the tensors that it was asked to keep.
//
// No lock is held while a cast is made or destroyed: what that runs may come back here.
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

// What is there on one type of device, and what has happened so far.
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

  // Whether there is nothing to find.
  bool empty() const {
    return size_.load(std::memory_order_relaxed) == 0;
  }

  // Keeps the casts of a tensor from now on. The name is for messages.
  void keep(const at::Tensor& tensor, std::string name);

  // Drops the casts of the tensor at an address, and where asked for also that they are kept.
  void forget(const void* address, bool release);

  // A cast; or, where the casts of the tensor are kept but there is none of this kind, the state to make one of. The
  // state is taken before the values: another thread may write between the two.
  struct Found {
    std::optional<Source> missing;
    at::Tensor cast;
  };
  Found find(const at::Tensor& tensor, const Kind& kind);

  // Marks a tensor whose casts are kept: see Note [Assignments to .data].
  void mark_again(const at::Tensor& tensor);

  // Stores a cast, if the casts of the tensor are still kept.
  void insert(const at::Tensor& tensor, Entry entry);

  // Drops all casts.
  void clear();

  // From now on the casts hold this many bytes at most; those that were not used for longest go first.
  void limit(size_t bytes);

  std::string name_of(const void* address);
  Tallies tallies();

 private:
  struct Kept {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;  // keeps the address from coming back as another's
    std::string name;
    Entries entries;
  };

  void enforce_limit(Entries& dropped);
  Tally& tally_of(const at::Tensor& tensor);

  std::mutex mutex_;
  std::unordered_map<const void*, Kept> sources_;
  std::atomic<size_t> size_{0};  // of the sources, to be read without the lock
  Tallies tallies_{};            // their entries and bytes are counted when they are asked for
  size_t limit_ = no_limit;
  uint64_t uses_ = 0;
};

}  // namespace polycast::cast_cache
