// The devices that run polycast's kernels. Kernels are held by library objects, so that they can be taken back.
#pragma once

#include <string>
#include <vector>

#include "autocast/rules.h"

namespace polycast::autocast {

// Registers the kernels of a device, anew and on top where they are registered already. The device is one of devices().
// An op without a kernel needs a fallback on the autocast key. With `fallback`, registers one where there is none; not
// for a device whose backend may still be loaded, which would register its own and find this one in its place.
void install(const std::string& device, bool fallback);

// Takes the kernels of a device back; what was registered before them holds again.
void uninstall(const std::string& device);

// The devices whose kernels are registered, in the order of devices().
std::vector<std::string> installed();

// Registers kernels for what a policy rules and policy.yaml does not list, on the devices that are installed. They stay
// until the device is uninstalled, since other threads may be about to call them: where no policy rules the operator
// such a kernel calls what is below, as if it were not there.
void add_kernels(const Patch& patch);

}  // namespace polycast::autocast
