// A hook that autocast kernels call with the rule that they obey.
#pragma once

#include "autocast/policy_scope.h"

namespace polycast::autocast {

// Called in the thread of the call, before anything is cast. `slot` is the overload that was called.
using Witness = void (*)(Slot slot, const Found& found);

// Replaces the witness. nullptr removes it.
void set_witness(Witness witness);

}  // namespace polycast::autocast
