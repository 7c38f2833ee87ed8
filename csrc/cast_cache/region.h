// The casts of the current thread's autocast region, which end with it.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <unordered_map>

#include "cast_cache/entry.h"

namespace polycast::cast_cache {

struct RegionCasts : c10::BackendMeta {
  std::unordered_map<const void*, Entries> of;  // by the source's address

  // What is held weakly, as by the thread, is destroyed later.
  void release_resources() override {
    of.clear();
  }
};

// The casts of the region that the current thread is in; null where nobody would tell of the region's end.
//
// Note [The end of a region]
// Torch empties its own cast cache where a thread leaves its outermost region, and in `torch.clear_autocast_cache()`.
// That cache holds an entry of ours, whose cast owns all of a thread's casts, so that they go with it. It is one for
// all threads: the end of a region in one thread costs others their casts, as with torch's own, but lends them none.
c10::intrusive_ptr<RegionCasts> region_casts();

}  // namespace polycast::cast_cache
