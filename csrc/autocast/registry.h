// Registers and removes polycast's kernels. Library objects own them, so that uninstalling restores PyTorch's.
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <vector>

#include "autocast/rules.h"

namespace polycast::autocast {

// Suppresses the warnings of PyTorch's C++ code in this thread as long as it exists.
class Silence : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}

 private:
  const c10::WarningUtils::WarningHandlerGuard guard_{this};
};

// Registers the kernels of one of devices(). Kernels that are already registered are registered again, above the
// kernels that others have registered since then.
//
// Ops without a kernel need a fallback on the autocast key. With `fallback` one is registered if there is none. Pass
// false if the device's backend can still be loaded: it registers its own fallback, and a second one is an error.
void install(const std::string& device, bool fallback);

// Removes the kernels of a device. The kernels that were registered before are active again.
void uninstall(const std::string& device);

// Returns the names of the devices whose kernels are registered, in the order of devices().
std::vector<std::string> installed();

// Registers kernels, on the installed devices, for the ops that a policy has rules for and policy.yaml does not list.
// Raises ValueError if an op has an autocast kernel that a policy cannot replace.
//
// The kernels remain until the device is uninstalled, because other threads may be about to call them. If no active
// policy has a rule for the op, its kernel only redispatches.
void add_kernels(const Policy& policy);

}  // namespace polycast::autocast
