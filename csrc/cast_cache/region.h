// The casts of the current thread's autocast region, which are freed at the end of the region.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <unordered_map>

#include "cast_cache/entry.h"

namespace polycast::cast_cache {

struct RegionCasts : c10::BackendMeta {
  std::unordered_map<const void*, Entries> of;  // The key is the address of the source.

  // Runs when the last strong reference ends. Otherwise the thread's weak reference would prevent the free.
  void release_resources() override {
    of.clear();
  }
};

// Returns the casts of the current thread's region, or null if the cache cannot notice the end of the region.
//
// Note [How does the cache notice the end of a region?]
// PyTorch has no callback for the end of a region. It empties its own cast cache when a thread leaves its outermost
// region, and in `torch.clear_autocast_cache()`. For each thread we add an entry to that cache whose cast owns all
// casts of the thread, so that they are freed together. PyTorch has one cache for all threads. The end of a region in
// one thread therefore drops the casts of the other threads as well, like PyTorch's own. No thread ever uses the casts
// of another thread.
c10::intrusive_ptr<RegionCasts> region_casts();

}  // namespace polycast::cast_cache
