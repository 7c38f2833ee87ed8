// What the cast cache's table holds. Without torch in it.
//
// Traits give the types:
//   Kind      what sort of cast a slot holds: serves(const Kind& wanted), and bounded(), whether a byte limit covers
//   it. View      a living source: address(), device(), hold() -> Source, identity() -> Identity, same(const Source&).
//   Source    the state of a source, held weakly, so that its address cannot come back: expired().
//   Identity  a source in any state, held weakly: expired().
//   Cast      a handle that copies cheaply: bytes(), and intact(), whether nobody has changed it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace polycast::autocast {

constexpr uint64_t no_epoch = 0;  // the epoch of slots that outlive every other

// What happened on one device, and what is there now.
struct Tally {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t drops = 0;

  void operator+=(const Tally& other) {
    entries += other.entries;
    bytes += other.bytes;
    hits += other.hits;
    misses += other.misses;
    drops += other.drops;
  }
};

// One cast of one source.
template <class Traits>
struct Slot {
  typename Traits::Kind kind;
  typename Traits::Source source;
  typename Traits::Cast cast;
  uint64_t epoch;
  size_t bytes;
  size_t device;
  int64_t used = std::chrono::steady_clock::now().time_since_epoch().count();

  bool over(uint64_t now) const {
    return (epoch != no_epoch && epoch != now) || source.expired();
  }
};

template <class Traits>
struct Found {
  std::optional<typename Traits::Cast> cast;
  bool kept = false;  // the source is one whose casts are kept
};

}  // namespace polycast::autocast
