// The casts of the current thread's outermost autocast region. They are freed when the region ends, or earlier.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <unordered_map>

#include "cast_cache/entry.h"

namespace polycast::cast_cache {

struct RegionCasts : c10::BackendMeta {
  std::unordered_map<const void*, Entries> of;  // The key is the address of the source.

  // Runs when the last strong reference ends. Otherwise the thread's weak reference would delay freeing the casts.
  void release_resources() override {
    of.clear();
  }
};

// Returns the casts of the current thread's region, or `nullptr` if the cache cannot notice the end of the region.
//
// Note [How does the cache notice the end of a region?]
// PyTorch has no callback for the end of a region. It empties its own cast cache when a thread leaves its outermost
// region, and in `torch.clear_autocast_cache()`. For each thread we add an entry to that cache. The cast in the entry
// owns all casts of the thread, so they are freed with the entry. PyTorch has one cache for all threads. The end of an
// outermost region in one thread therefore drops the casts of the other threads as well, like PyTorch's own casts. No
// thread ever uses the region casts of another thread.
c10::intrusive_ptr<RegionCasts> region_casts();

}  // namespace polycast::cast_cache
