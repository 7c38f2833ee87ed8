// Hooks that autocast kernels call: a recording learns of their calls and of the rules that they follow.
#pragma once

#include "autocast/policy_scope.h"

namespace polycast::autocast {

// Both are called in the thread of the call, before anything is cast. `slot` is the overload that was called.
struct RuleObserver {
  void (*follow)(Slot slot, const Found& found);
  // Returns whether the observer knows of the call.
  bool (*has_begun)(Slot slot);
};

// Replaces the observer, which lives until the end of the process. nullptr removes it.
void set_rule_observer(const RuleObserver* observer);
// Whether there is an observer and it does not know of a call.
bool is_unobserved(Slot slot);

}  // namespace polycast::autocast
