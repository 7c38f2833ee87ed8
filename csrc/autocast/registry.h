// The registry of polycast's kernels. Library objects own the kernels, so uninstalling restores the earlier ones.
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <vector>

#include "autocast/rules.h"

namespace polycast::autocast {

// A guard that suppresses the warnings of PyTorch's C++ code in this thread.
class Silence : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}

 private:
  const c10::WarningUtils::WarningHandlerGuard guard_{this};
};

// Registers the kernels of a device from `devices()`. A second call lets them override kernels that other libraries
// have registered since the first call.
//
// Ops without a kernel need a fallback on the autocast key. With `fallback`, `install` registers one if there is none.
// Pass false if the device's backend may be loaded later, because PyTorch would then reject the backend's own fallback.
void install(const std::string& device, bool fallback);

// Removes the kernels of a device, so that the kernels that were registered before them are active again.
void uninstall(const std::string& device);

// Returns the names of the devices whose kernels are registered, in the order of `devices()`.
std::vector<std::string> installed();

// Registers kernels on the installed devices for the ops that have a rule in the policy and none in `policy.yaml`.
// Raises `ValueError` if an op has an autocast kernel that a policy cannot replace.
//
// The kernels remain registered until the device is uninstalled, because other threads may be about to call them. If no
// active policy has a rule for an op, the op's kernel only redispatches.
void add_kernels(const Policy& policy);

}  // namespace polycast::autocast
