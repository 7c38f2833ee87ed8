// Hearing of the end of a thread's outermost autocast region, whoever opened it.
//
// Torch empties its own cast cache there. An entry of ours in it, whose storage has a deleter of ours, carries the
// news. Torch's cache is one for all threads while regions are per thread, so an epoch can end while a region goes on.
#pragma once

#include <cstdint>

namespace polycast::autocast {

// Whether the current thread is in a region: one that will end with a sign. `torch.set_autocast_enabled` gives none.
bool in_region();

// The epoch that is going on.
uint64_t epoch();

// Whether the end of the epoch that is going on will be heard of.
bool epoch_is_watched();

// Makes sure of it. Returns the epoch, or no_epoch where torch's cache takes no entry.
uint64_t watch_epoch();

// What to call at the end of an epoch. Torch's mutex is held then: it may only send word to somewhere else.
void on_epoch_end(void (*callback)());

}  // namespace polycast::autocast
