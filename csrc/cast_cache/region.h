// The casts of the current thread's autocast region. They are dropped where it ends.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <unordered_map>

#include "cast_cache/entry.h"

namespace polycast::cast_cache {

struct RegionCasts : c10::BackendMeta {
  std::unordered_map<const void*, Entries> of;  // by the source's address

  // Called when the last strong reference is gone. The thread's weak one would keep the casts alive.
  void release_resources() override {
    of.clear();
  }
};

// The casts of the region that the current thread is in, or null if the end of the region could not be noticed.
//
// Note [The end of a region]
// Torch empties its own cast cache where a thread leaves its outermost region, and in `torch.clear_autocast_cache()`.
// For each thread we put an entry into that cache whose cast owns all casts of the thread. So they are dropped with it.
// Torch has one cache for all threads. The end of a region in one thread therefore drops the casts of the other
// threads, as it drops torch's own. It never gives a thread the casts of another.
c10::intrusive_ptr<RegionCasts> region_casts();

}  // namespace polycast::cast_cache
