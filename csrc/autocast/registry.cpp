#include "autocast/registry.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "autocast/builtin_policy.h"
#include "autocast/kernel.h"
#include "autocast/rules.h"
#include "cast_cache/cache.h"

namespace polycast::autocast {

namespace {

// An op, as "mylib::attention.default", and a dispatch key.
using Place = std::pair<std::string, c10::DispatchKey>;

struct State {
  std::mutex mutex;
  std::map<std::string, std::vector<torch::Library>> libraries;
  std::map<Place, torch::Library> added;   // the kernels that add_kernels registered
  std::atomic<uint64_t> installations{1};  // A policy stores the count at which its kernels were added.
};

State& state() {
  // Never destroyed, because the dispatcher may be destroyed before static objects.
  static State* const instance = new State;
  return *instance;
}

std::string debug_text(const BuiltInRule& rule) {
  return std::string("polycast: ") + name_of(rule.category) + " on " + rule.device + ", from policy.yaml";
}

const Device& find_device(const std::string& name) {
  return devices()[index_of(name)];
}

// Maps the name of an overload to its built-in rules, one for each device that lists it.
using RulesByName = std::map<std::string, std::vector<const BuiltInRule*>>;

const RulesByName& rules_by_name() {
  static const RulesByName* const table = [] {
    auto* const made = new RulesByName;
    for (const BuiltInRule& rule : built_in_rules()) {
      (*made)[qualified_name(rule)].push_back(&rule);
    }
    return made;
  }();
  return *table;
}

std::vector<const BuiltInRule*> rules_of(const std::string& name) {
  const auto found = rules_by_name().find(name);
  return found == rules_by_name().end() ? std::vector<const BuiltInRule*>{} : found->second;
}

std::vector<std::string> listed_names() {
  std::vector<std::string> names;
  for (const auto& [name, rules] : rules_by_name()) {
    names.push_back(name);
  }
  return names;
}

// Two devices of policy.yaml can share a dispatch key. An op that only the other device lists must fall through here,
// otherwise it would keep the kernel that PyTorch registered for the other device.
void hide_rules_of_siblings(const Device& device, const std::set<std::string>& own, torch::Library& library) {
  const std::string key = device.dispatch_key;
  for (const auto& [name, found] : rules_by_name()) {
    const bool hidden = std::any_of(found.begin(), found.end(), [&key](const BuiltInRule* rule) {
      return rule->category != Category::stock && key == find_device(rule->device).dispatch_key;
    });
    if (hidden && own.count(name) == 0) {
      library.impl(
          name.c_str(),
          torch::CppFunction::makeFallthrough().debug(std::string("polycast: unlisted on ") + device.name));
    }
  }
}

// The kernel that was compiled for the op, if policy.yaml lists it on any device, otherwise the boxed one.
torch::CppFunction kernel_of(const std::string& name) {
  for (const BuiltInRule* rule : rules_of(name)) {
    if (rule->category != Category::stock) {
      return rule->kernel(slot_of(name));
    }
  }
  return boxed_kernel(name);
}

// Returns whether the kernel on the device's key is ours: the device, or another one with its key, lists the op.
bool is_ours(const std::string& name, const Device& device) {
  const std::string key = device.dispatch_key;
  const std::vector<const BuiltInRule*> found = rules_of(name);
  return std::any_of(found.begin(), found.end(), [&key](const BuiltInRule* rule) {
    return key == find_device(rule->device).dispatch_key;
  });
}

// Raises ValueError if another library registered an autocast kernel for the op. Ours would replace it everywhere,
// also where the policy does not apply.
void check_free(const std::string& name, const Device& device, c10::DispatchKey key) {
  const size_t dot = name.find('.');
  const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(), overload.c_str());
  TORCH_CHECK_VALUE(
      !op.hasKernelForDispatchKey(key),
      name,
      " has an autocast kernel of its own on ",
      device.name,
      ", which a policy cannot change; remove the rule");
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
  if (!is_ours(name, device)) {
    check_free(name, device, key);
  }
  state().added.emplace(Place(name, key), added_kernel(name, device));
}

}  // namespace

void install(const std::string& device_name, bool fallback) {
  const Device& device = find_device(device_name);
  const std::lock_guard<std::mutex> lock(state().mutex);
  Silence silence;  // The dispatcher warns that a kernel of PyTorch is overridden, which is intended.
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  const c10::DispatchKey key = c10::parseDispatchKey(device.dispatch_key);
  torch::Library library(torch::Library::IMPL, "aten", key, "policy.yaml", 0);
  std::set<std::string> own;
  for (const BuiltInRule& rule : built_in_rules()) {
    if (device_name != rule.device) {
      continue;
    }
    const std::string name = qualified_name(rule);
    own.insert(name);
    if (rule.category != Category::stock) {
      library.impl(name.c_str(), rule.kernel(slot_of(name)).debug(debug_text(rule)));
    }
  }
  hide_rules_of_siblings(device, own, library);
  for (auto& [place, kernel] : state().added) {
    if (place.second == key) {
      kernel = added_kernel(place.first, device);  // above the kernel that hides the rules of a sibling
    }
  }
  cast_cache::allow(installed_on(key).device_type, device.cache);
  set_installed(key, index_of(device_name));
  ++state().installations;
  state().libraries.erase(device_name);  // last, because the earlier kernels must remain if a registration throws
  std::vector<torch::Library>& libraries = state().libraries[device_name];
  libraries.push_back(std::move(library));
  if (fallback && !c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key)) {
    libraries.emplace_back(torch::Library::IMPL, "_", key, "policy.yaml", 0)
        .fallback(torch::CppFunction::makeFallthrough());
  }
}

void uninstall(const std::string& device_name) {
  const c10::DispatchKey key = c10::parseDispatchKey(find_device(device_name).dispatch_key);
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
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  for (const auto& [key, row] : policy.rows) {
    for (const std::string& name : key == "*" ? listed_names() : overloads_of(key)) {
      for (DeviceIndex index = 0; index < devices().size(); ++index) {
        const Device& device = devices()[index];
        // The kernel of an op that is listed reads the policies already.
        if (row[index] && state().libraries.count(device.name) != 0 &&
            built_in_rule(name, index).category == Category::unlisted && policy.find_row(name, index) != nullptr) {
          add_kernel(name, device);
        }
      }
    }
  }
  policy.added = state().installations.load();
}

}  // namespace polycast::autocast
