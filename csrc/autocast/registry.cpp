#include "autocast/registry.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "autocast/builtin_policy.h"
#include "autocast/kernel.h"
#include "autocast/rules.h"
#include "process_state.h"

namespace polycast::autocast {

namespace {

// An overload, such as "mylib::attention", and a dispatch key.
using Place = std::pair<std::string, c10::DispatchKey>;

struct State {
  std::mutex mutex;
  std::map<std::string, std::vector<torch::Library>> libraries;
  std::map<Place, torch::Library> added;   // `add_kernels` registered these kernels.
  std::atomic<uint64_t> installations{1};  // A policy stores the count at which its kernels were added.
};

State& state() {
  return process_state<State>();
}

bool has_kernel(const BuiltInRule& rule) {
  return rule.category != Category::stock;
}

// Returns whether a built-in rule of the row has a kernel on a device with this dispatch key.
bool has_kernel_on(const char* dispatch_key, const BuiltInRow& row) {
  for (DeviceIndex index = 0; index < row.size(); ++index) {
    if (row[index] && has_kernel(*row[index]) && std::string(dispatch_key) == devices()[index].dispatch_key) {
      return true;
    }
  }
  return false;
}

bool has_statistics(const std::string& name) {
  const auto op = c10::Dispatcher::singleton().findSchema(operator_name(name));
  return op && updates_statistics(op->schema());
}

// Returns the compiled kernel of an op that has a built-in rule other than stock, otherwise the boxed kernel. Only the
// boxed kernel preserves the update of running statistics.
torch::CppFunction kernel_of(const std::string& name) {
  for (const BuiltInRule* const rule : built_in_row(name)) {
    if (rule && has_kernel(*rule) && !has_statistics(name)) {
      return rule->kernel(slot_of(name));
    }
  }
  return boxed_kernel(name);
}

// Returns whether another library registered an autocast kernel for the op. The policy's kernel would replace that
// kernel everywhere, even where the policy does not apply.
bool has_own_kernel(const std::string& name, const Device& device) {
  const c10::DispatchKey key = c10::parseDispatchKey(device.dispatch_key);
  // If a device with this key has a built-in kernel for the op, the kernel on the key is polycast's.
  return state().added.count({name, key}) == 0 && !has_kernel_on(device.dispatch_key, built_in_row(name)) &&
         c10::Dispatcher::singleton().findSchema(operator_name(name))->hasKernelForDispatchKey(key);
}

torch::Library added_kernel(const std::string& name, const Device& device) {
  const c10::DispatchKey key = c10::parseDispatchKey(device.dispatch_key);
  torch::Library library(torch::Library::IMPL, name.substr(0, name.find(':')), key, "policy", 0);
  library.impl(name.c_str(), kernel_of(name).debug(std::string("polycast: by a policy on ") + device.name));
  return library;
}

void add_kernel(const std::string& name, const Device& device) {
  const c10::DispatchKey key = c10::parseDispatchKey(device.dispatch_key);
  if (state().added.count({name, key}) != 0) {
    return;
  }
  TORCH_CHECK_VALUE(
      !has_own_kernel(name, device),
      name,
      ": a policy cannot override this operator's own autocast kernel on ",
      device.name,
      "; remove the rule of this operator");
  state().added.emplace(Place(name, key), added_kernel(name, device));
}

}  // namespace

void install(const std::string& device_name, bool fallback) {
  const DeviceIndex index = index_of(device_name);
  const Device& device = devices()[index];
  const std::lock_guard<std::mutex> lock(state().mutex);
  const Silence silence;  // The dispatcher warns that a kernel of PyTorch is overridden, which is intended.
  const c10::DispatchKey key = c10::parseDispatchKey(device.dispatch_key);
  torch::Library library(torch::Library::IMPL, "aten", key, "policy.yaml", 0);
  for (const auto& [name, row] : built_in_rows()) {
    if (const BuiltInRule* const rule = row[index]) {
      if (has_kernel(*rule)) {
        const std::string text = "polycast: " + name_of(rule->category) + " on " + device.name + ", from policy.yaml";
        library.impl(
            name.c_str(), (has_statistics(name) ? boxed_kernel(name) : rule->kernel(slot_of(name))).debug(text));
      }
    } else if (has_kernel_on(device.dispatch_key, row)) {
      // Devices can share a dispatch key. An op with a rule only on another device of the key must fall through.
      // Otherwise PyTorch's kernel for that device would run.
      const std::string text = std::string("polycast: unlisted on ") + device.name;
      library.impl(name.c_str(), torch::CppFunction::makeFallthrough().debug(text));
    }
  }
  for (auto& [place, kernel] : state().added) {
    if (place.second == key) {
      kernel = added_kernel(place.first, device);  // The kernel must override the fallthrough above.
    }
  }
  set_installed(key, index);
  ++state().installations;
  // The earlier kernels are removed last, because they must remain if a registration throws.
  state().libraries.erase(device_name);
  std::vector<torch::Library>& libraries = state().libraries[device_name];
  libraries.push_back(std::move(library));
  if (fallback && !c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key)) {
    libraries.emplace_back(torch::Library::IMPL, "_", key, "policy.yaml", 0)
        .fallback(torch::CppFunction::makeFallthrough());
  }
}

void uninstall(const std::string& device_name) {
  const c10::DispatchKey key = c10::parseDispatchKey(devices()[index_of(device_name)].dispatch_key);
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (state().libraries.erase(device_name) == 0) {
    return;
  }
  auto& added = state().added;
  for (auto kernel = added.begin(); kernel != added.end();) {
    kernel = kernel->first.second == key ? added.erase(kernel) : std::next(kernel);
  }
}

std::vector<std::string> installed() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  std::vector<std::string> names;
  for (const Device& device : devices()) {
    if (state().libraries.count(device.name) != 0) {
      names.emplace_back(device.name);
    }
  }
  return names;
}

void add_kernels(const Policy& policy) {
  if (policy.added == state().installations) {
    return;
  }
  const std::lock_guard<std::mutex> lock(state().mutex);
  const Silence silence;
  bool is_complete = true;
  for (const auto& [key, row] : policy.rows) {
    const std::vector<std::string> names = overloads_of(key);
    is_complete = is_complete && !names.empty() && c10::Dispatcher::singleton().findSchema(operator_name(names[0]));
    // The kernel of a listed op already reads the policies, so a row adds kernels only for unlisted overloads.
    for (const std::string& name : names) {
      for (DeviceIndex index = 0; index < devices().size(); ++index) {
        const Device& device = devices()[index];
        const bool is_missing = row[index] && state().libraries.count(device.name) != 0 &&
                                built_in_category(name, index) == Category::unlisted;
        const auto* const found = is_missing ? policy.find_row(name, index) : nullptr;
        // A rule for every op does not apply to an op that has a kernel of its own.
        if (found != nullptr && (found->first != "*" || !has_own_kernel(name, device))) {
          add_kernel(name, device);
        }
      }
    }
  }
  // If a row names an op whose library is not imported yet, the next call adds kernels again.
  policy.added = is_complete ? state().installations.load() : std::numeric_limits<uint64_t>::max();
}

}  // namespace polycast::autocast
