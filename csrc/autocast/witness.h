// Who is shown the rules that kernels follow, as they do.
#pragma once

#include "autocast/scopes.h"

namespace polycast::autocast {

// Is shown the slot of the overload that a kernel was called for, and its rule, in the thread of the call, before
// anything is cast.
using Witness = void (*)(Slot slot, const Found& found);

// One at a time; nullptr for none.
void set_witness(Witness witness);

}  // namespace polycast::autocast
