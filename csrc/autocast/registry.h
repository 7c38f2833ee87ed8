// Registers and removes polycast's kernels. Library objects own them, so that uninstalling restores torch's.
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <vector>

#include "autocast/rules.h"

namespace polycast::autocast {

// Drops the warnings of torch's code.
class Silence : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

// Registers the kernels of one of devices(). Kernels that are registered already are registered again, on top of what
// others have registered since.
//
// Ops without a kernel need a fallback on the autocast key. With `fallback` one is registered if there is none. Do not
// ask for it if the device's backend may still be loaded: the backend registers a fallback of its own, and a second one
// is an error.
void install(const std::string& device, bool fallback);

// Removes the kernels of a device. The kernels that were registered before are in force again.
void uninstall(const std::string& device);

// The names of the devices whose kernels are registered, in the order of devices().
std::vector<std::string> installed();

// Registers kernels, on the installed devices, for the ops that a policy has rules for and policy.yaml does not list.
// Raises ValueError if an op has an autocast kernel that a policy cannot replace.
//
// The kernels stay until the device is uninstalled, because other threads may be about to call them. Where no policy
// in force has a rule for the op, its kernel only redispatches.
void add_kernels(const Policy& policy);

}  // namespace polycast::autocast
