// A hook that autocast kernels call with the rule that they follow.
#pragma once

#include "autocast/policy_scope.h"

namespace polycast::autocast {

// Called in the thread of the call, before anything is cast. `slot` is the overload that was called.
using RuleObserver = void (*)(Slot slot, const Found& found);

// Replaces the observer. nullptr removes it.
void set_rule_observer(RuleObserver observer);

}  // namespace polycast::autocast
