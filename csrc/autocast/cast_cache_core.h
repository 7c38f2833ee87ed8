// The table behind the cast cache, without torch in it, so that its threading can be tested by itself.
//
// A slot is one cast of one source. It is handed out for a source in the very state that it was cast in, until the
// epoch it belongs to is over, or, where it belongs to none, until the source changes or dies. No lock is held while a
// source is cast.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "autocast/cast_cache_shard.h"

namespace polycast::autocast {

template <class Traits>
class CastTable {
 public:
  using Kind = typename Traits::Kind;
  using View = typename Traits::View;
  using Cast = typename Traits::Cast;
  using Source = typename Traits::Source;

  static constexpr size_t no_limit = std::numeric_limits<size_t>::max();

  CastTable() {
    for (CastShard<Traits>& shard : shards_) {
      shard.occupied = &occupied_;
    }
  }

  // Whether there is nothing to find.
  bool empty() const {
    return occupied_.load(std::memory_order_relaxed) == 0;
  }

  Found<Traits> find(const View& view, const Kind& kind, uint64_t epoch) {
    return shard_of(view.address()).find(view, kind, epoch);
  }

  // Stores the cast of a source in a state for an epoch, or for good with no_epoch, unless the source has changed
  // since. Returns it, or the one that another thread stored meanwhile.
  Cast insert(const View& view, Source source, const Kind& kind, Cast cast, uint64_t epoch) {
    const size_t bytes = cast.bytes();
    if (kind.bounded() && bytes > limit_.load(std::memory_order_relaxed)) {
      return cast;
    }
    CastShard<Traits>& shard = shard_of(view.address());
    cast = shard.insert(view, Slot<Traits>{kind, std::move(source), std::move(cast), epoch, bytes, view.device()});
    enforce_limit();
    return cast;
  }

  void keep(const View& view, std::string name) {
    shard_of(view.address()).keep(view, std::move(name));
  }

  // Drops the casts of a source, and where asked for also that they are kept.
  void forget(const void* address, bool release) {
    shard_of(address).forget(address, release);
  }

  std::string name_of(const void* address) {
    return shard_of(address).name_of(address);
  }

  // Drops what is of another epoch than this, or of a source that died.
  void sweep(uint64_t epoch) {
    for (CastShard<Traits>& shard : shards_) {
      shard.drop([epoch](const Slot<Traits>& slot) { return slot.over(epoch); });
    }
  }

  void clear() {
    for (CastShard<Traits>& shard : shards_) {
      shard.drop([](const Slot<Traits>&) { return true; });
    }
  }

  // From now on the bounded casts hold this many bytes at most; those that were not used for longest go first.
  void limit(size_t bytes) {
    limit_ = bytes;
    enforce_limit();
  }

  std::array<Tally, Traits::devices> tallies() {
    std::array<Tally, Traits::devices> sums{};
    for (CastShard<Traits>& shard : shards_) {
      const auto tallies = shard.tallies();
      for (size_t device = 0; device < sums.size(); ++device) {
        sums[device] += tallies[device];
      }
    }
    return sums;
  }

 private:
  CastShard<Traits>& shard_of(const void* address) {
    // Addresses are multiples of an allocator's step, so the upper bits of a product are taken.
    const uint64_t mixed = reinterpret_cast<uintptr_t>(address) * 0x9E3779B97F4A7C15ULL;
    return shards_[mixed >> 59];
  }

  void enforce_limit() {
    while (limit_.load(std::memory_order_relaxed) != no_limit && bounded_bytes() > limit_.load()) {
      CastShard<Traits>* oldest_shard = nullptr;
      std::pair<int64_t, const void*> oldest;
      for (CastShard<Traits>& shard : shards_) {
        const auto candidate = shard.oldest();
        if (candidate.has_value() && (oldest_shard == nullptr || candidate->first < oldest.first)) {
          oldest_shard = &shard;
          oldest = *candidate;
        }
      }
      if (oldest_shard == nullptr) {
        return;
      }
      oldest_shard->drop_at(
          oldest.second, [&](const Slot<Traits>& slot) { return slot.kind.bounded() && slot.used <= oldest.first; });
    }
  }

  size_t bounded_bytes() {
    size_t bytes = 0;
    for (CastShard<Traits>& shard : shards_) {
      bytes += shard.bounded_bytes();
    }
    return bytes;
  }

  std::atomic<int64_t> occupied_{0};
  std::atomic<size_t> limit_{no_limit};
  std::array<CastShard<Traits>, 32> shards_;
};

}  // namespace polycast::autocast
