// One part of the cast cache's table, under one lock. Without torch in it.
//
// No lock is held while a cast or a hold on a source is destroyed: what a destructor runs may come back here. So what
// is dropped is moved to a list that outlives the lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "autocast/cast_cache_slot.h"

namespace polycast::autocast {

template <class Traits>
class CastShard {
 public:
  using Kind = typename Traits::Kind;
  using View = typename Traits::View;
  using Cast = typename Traits::Cast;

  std::atomic<int64_t>* occupied = nullptr;  // counts the nodes of all shards

  Found<Traits> find(const View& view, const Kind& kind, uint64_t epoch) {
    Slots dropped;
    const std::lock_guard<std::mutex> lock(mutex_);
    Found<Traits> found;
    const auto node = nodes_.find(view.address());
    if (node != nodes_.end()) {
      found.kept = node->second.keeper.has_value();
      if (Slot<Traits>* const slot = valid_slot(node->second, view, kind, epoch, dropped)) {
        slot->used = std::chrono::steady_clock::now().time_since_epoch().count();
        found.cast = slot->cast;
      }
    }
    ++(found.cast.has_value() ? tallies_[view.device()].hits : tallies_[view.device()].misses);
    return found;
  }

  // Stores a cast, unless its source has changed since. Returns it, or the one that another thread stored meanwhile.
  Cast insert(const View& view, Slot<Traits> slot) {
    Slots dropped;
    if (!view.same(slot.source)) {
      return std::move(slot.cast);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (++insertions_ > 8 + nodes_.size() / 2) {
      insertions_ = 0;
      drop_where([](const Slot<Traits>& other) { return other.source.expired(); }, dropped);
    }
    Node& node = node_at(view.address());
    if (Slot<Traits>* const first = valid_slot(node, view, slot.kind, slot.epoch, dropped)) {
      dropped.push_back(std::move(slot));
      return first->cast;
    }
    Tally& tally = tallies_[slot.device];
    ++tally.entries;
    tally.bytes += static_cast<int64_t>(slot.bytes);
    bounded_bytes_ += slot.kind.bounded() ? slot.bytes : 0;
    node.slots.push_back(std::move(slot));
    return node.slots.back().cast;
  }

  // Keeps the casts of a source from now on. The name is for messages.
  void keep(const View& view, std::string name) {
    std::optional<typename Traits::Identity> identity(view.identity());
    const std::lock_guard<std::mutex> lock(mutex_);
    Node& node = node_at(view.address());
    node.keeper.swap(identity);
    node.name = std::move(name);
  }

  // Drops the casts of a source, and where asked for also that they are kept.
  void forget(const void* address, bool release) {
    std::optional<typename Traits::Identity> keeper;
    Slots dropped;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto node = nodes_.find(address);
    if (node == nodes_.end()) {
      return;
    }
    if (release) {
      keeper.swap(node->second.keeper);
    }
    take_where(node->second, [](const Slot<Traits>&) { return true; }, dropped);
    erase_if_bare(node);
  }

  template <class Condition>
  void drop(const Condition& condition) {
    if (size_.load() == 0) {
      return;
    }
    Slots dropped;
    const std::lock_guard<std::mutex> lock(mutex_);
    drop_where(condition, dropped);
  }

  // The same for the slots of one source.
  template <class Condition>
  void drop_at(const void* address, const Condition& condition) {
    Slots dropped;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto node = nodes_.find(address);
    if (node != nodes_.end()) {
      take_where(node->second, condition, dropped);
      erase_if_bare(node);
    }
  }

  std::string name_of(const void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto node = nodes_.find(address);
    return node == nodes_.end() ? std::string() : node->second.name;
  }

  // The bounded slot that was used before all others, or nothing.
  std::optional<std::pair<int64_t, const void*>> oldest() {
    std::optional<std::pair<int64_t, const void*>> found;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [address, node] : nodes_) {
      for (const Slot<Traits>& slot : node.slots) {
        if (slot.kind.bounded() && (!found.has_value() || slot.used < found->first)) {
          found.emplace(slot.used, address);
        }
      }
    }
    return found;
  }

  size_t bounded_bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bounded_bytes_;
  }

  std::array<Tally, Traits::devices> tallies() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return tallies_;
  }

 private:
  using Slots = std::vector<Slot<Traits>>;

  struct Node {
    std::optional<typename Traits::Identity> keeper;
    std::string name;
    Slots slots;
  };

  using Nodes = std::unordered_map<const void*, Node>;

  Node& node_at(const void* address) {
    const auto [node, added] = nodes_.try_emplace(address);
    *occupied += added ? 1 : 0;
    size_ += added ? 1 : 0;
    return node->second;
  }

  // Returns a slot that serves and still holds; those that do not hold any more are moved to `dropped`.
  Slot<Traits>* valid_slot(Node& node, const View& view, const Kind& kind, uint64_t epoch, Slots& dropped) {
    for (auto slot = node.slots.begin(); slot != node.slots.end();) {
      if (!slot->kind.serves(kind)) {
        ++slot;
      } else if ((slot->epoch == no_epoch || slot->epoch == epoch) && view.same(slot->source) && slot->cast.intact()) {
        return &*slot;
      } else {
        slot = take(node, slot, dropped);
      }
    }
    return nullptr;
  }

  typename Slots::iterator take(Node& node, typename Slots::iterator slot, Slots& dropped) {
    Tally& tally = tallies_[slot->device];
    --tally.entries;
    ++tally.drops;
    tally.bytes -= static_cast<int64_t>(slot->bytes);
    bounded_bytes_ -= slot->kind.bounded() ? slot->bytes : 0;
    dropped.push_back(std::move(*slot));
    return node.slots.erase(slot);
  }

  template <class Condition>
  void take_where(Node& node, const Condition& condition, Slots& dropped) {
    for (auto slot = node.slots.begin(); slot != node.slots.end();) {
      slot = condition(*slot) ? take(node, slot, dropped) : std::next(slot);
    }
  }

  template <class Condition>
  void drop_where(const Condition& condition, Slots& dropped) {
    for (auto node = nodes_.begin(); node != nodes_.end();) {
      take_where(node->second, condition, dropped);
      node = erase_if_bare(node);
    }
  }

  typename Nodes::iterator erase_if_bare(typename Nodes::iterator node) {
    const Node& content = node->second;
    if (!content.slots.empty() || (content.keeper.has_value() && !content.keeper->expired())) {
      return std::next(node);
    }
    --*occupied;
    --size_;
    return nodes_.erase(node);  // the hold of a dead keeper frees an address and runs nothing
  }

  std::mutex mutex_;
  Nodes nodes_;
  std::atomic<size_t> size_{0};  // of the nodes, to be read without the lock
  std::array<Tally, Traits::devices> tallies_{};
  size_t bounded_bytes_ = 0;
  size_t insertions_ = 0;
};

}  // namespace polycast::autocast
