// The devices that run polycast's kernels. Kernels are held by library objects, so that they can be taken back.
#pragma once

#include <torch/library.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace polycast::autocast {

// Registers the kernels of a device, anew and on top where they are registered already. The device is one of devices().
// An op without a kernel needs a fallback on the autocast key. With `fallback`, registers one where there is none; not
// for a device whose backend may still be loaded, which would register its own and find this one in its place.
void install(const std::string& device, bool fallback);

// Takes the kernels of a device back; what was registered before them holds again.
void uninstall(const std::string& device);

// The devices whose kernels are registered, in the order of devices().
std::vector<std::string> installed();

// Kernels of operators that the rules of policy.yaml give none on a device; they are registered while this is alive,
// and once however many want them.
struct Additions {
  std::vector<std::shared_ptr<torch::Library>> libraries;
};
std::shared_ptr<Additions> add_kernels(const std::vector<std::pair<std::string, std::string>>& names_and_devices);

}  // namespace polycast::autocast
