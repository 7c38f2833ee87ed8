#include "autocast/registry.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "autocast/kernel.h"
#include "autocast/table.h"
#include "cast_cache/cache.h"

namespace polycast::autocast {

namespace {

struct State {
  std::mutex mutex;
  std::map<std::string, std::vector<torch::Library>> libraries;
};

State& state() {
  // Never destroyed: the dispatcher may be gone by the time that static objects are.
  static State* const instance = new State;
  return *instance;
}

// Overriding a kernel of torch's is what this module is for, so the dispatcher's warning of it says nothing.
class Silence : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

class Banned final : public c10::OperatorKernel {
 public:
  explicit Banned(std::string message) : message_(std::move(message)) {}

  void operator()(const c10::OperatorHandle& /*op*/, c10::DispatchKeySet /*keys*/, torch::jit::Stack* /*stack*/) {
    TORCH_CHECK(false, message_);
  }

 private:
  std::string message_;
};

std::string schema_name(const Row& row) {
  const std::string overload(row.overload);
  return overload == "default" ? row.op : row.op + ("." + overload);
}

torch::CppFunction make_kernel(const Row& row) {
  switch (row.category) {
    case Category::banned:
      return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Banned>(row.message));
    case Category::fallthrough:
      return torch::CppFunction::makeFallthrough();
    default:
      return row.kernel();
  }
}

std::string debug_text(const Row& row) {
  for (const Sentence& sentence : sentences()) {
    if (sentence.category == row.category) {
      return std::string("polycast: ") + sentence.name + " on " + row.device + ", from policy.yaml";
    }
  }
  TORCH_INTERNAL_ASSERT(false, "policy.yaml has a sentence for every category");
}

const Device& find_device(const std::string& name) {
  for (const Device& device : devices()) {
    if (device.name == name) {
      return device;
    }
  }
  TORCH_CHECK(false, "polycast has no device '", name, "' in its policy");
}

// Two devices of the policy can share a dispatch key. What only the other one lists must fall through, or it would keep
// the kernel that torch registered for that other device.
void hide_rows_of_siblings(const Device& device, const std::set<std::string>& own, torch::Library& library) {
  std::set<std::string> hidden;
  for (const Device& other : devices()) {
    if (std::string(other.name) == device.name || std::string(other.dispatch_key) != device.dispatch_key) {
      continue;
    }
    for (const Row& row : rows()) {
      const std::string name = schema_name(row);
      if (std::string(row.device) == other.name && row.category != Category::stock && own.count(name) == 0 &&
          hidden.insert(name).second) {
        library.impl(
            ("aten::" + name).c_str(),
            torch::CppFunction::makeFallthrough().debug(std::string("polycast: not listed on ") + device.name));
      }
    }
  }
}

}  // namespace

void install(const std::string& device_name, bool fallback) {
  const Device& device = find_device(device_name);
  const std::lock_guard<std::mutex> lock(state().mutex);
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  const c10::DispatchKey key = c10::parseDispatchKey(device.dispatch_key);
  torch::Library library(torch::Library::IMPL, "aten", key, "policy.yaml", 0);
  std::set<std::string> own;
  for (const Row& row : rows()) {
    if (device_name != row.device) {
      continue;
    }
    const std::string name = schema_name(row);
    own.insert(name);
    if (row.category != Category::stock) {
      library.impl(("aten::" + name).c_str(), make_kernel(row).debug(debug_text(row)));
    }
  }
  hide_rows_of_siblings(device, own, library);
  cast_cache::allow(device_of(key), device.cache);
  state().libraries.erase(device_name);  // only now: had a registration thrown, these would still be in force
  std::vector<torch::Library>& libraries = state().libraries[device_name];
  libraries.push_back(std::move(library));
  if (fallback && !c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key)) {
    libraries.emplace_back(torch::Library::IMPL, "_", key, "policy.yaml", 0)
        .fallback(torch::CppFunction::makeFallthrough());
  }
}

void uninstall(const std::string& device_name) {
  find_device(device_name);
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().libraries.erase(device_name);
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

}  // namespace polycast::autocast
