// The state that a kernel reads before it casts: the call's rule and device, and the region's dtype.
//
// These functions are not in a header, because `autocast_mode.h` includes every operator.
#include "autocast/kernel.h"

#include <ATen/TracerMode.h>
#include <ATen/autocast_mode.h>

#include <array>
#include <atomic>

#include "autocast/casts.h"
#include "autocast/policy_scope.h"

namespace polycast::autocast {

at::ScalarType lower_precision(c10::DeviceType device_type) {
  return at::autocast::get_autocast_dtype(device_type);
}

namespace {

constexpr size_t key_count = static_cast<size_t>(c10::DispatchKey::EndOfFunctionalityKeys);

const std::array<c10::DeviceType, key_count> type_by_key = [] {
  std::array<c10::DeviceType, key_count> table{};
  table.fill(c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES);
  for (const c10::DeviceType type : at::autocast::_AUTOCAST_SUPPORTED_DEVICES) {
    table[static_cast<size_t>(at::autocast::get_autocast_dispatch_key_from_device_type(type))] = type;
  }
  return table;
}();

std::array<std::atomic<DeviceIndex>, key_count> device_by_key{};

std::atomic<const RuleObserver*> observer{nullptr};

// Returns the error message of a banned call.
std::string message_of(const Found& found, Slot slot, DeviceIndex device) {
  const std::string& name = name_of(slot);
  if (found.spec == nullptr) {
    return built_in_row(name)[device]->message;
  }
  const std::string shown = name.rfind("aten::", 0) == 0 ? name.substr(6) : name;
  return "'" + shown + "' is banned on " + devices()[device].name + " by the rule '" + found.spec->origin +
         "'; remove it";
}

}  // namespace

// If this function were inlined, GCC would warn that the key may be outside of the tables.
[[gnu::noinline]] Installed installed_on(c10::DispatchKey autocast_key) {
  const auto key = static_cast<size_t>(autocast_key);
  return {type_by_key[key], device_by_key[key].load(std::memory_order_relaxed)};
}

void set_installed(c10::DispatchKey autocast_key, DeviceIndex device) {
  device_by_key[static_cast<size_t>(autocast_key)] = device;
}

void set_rule_observer(const RuleObserver* next) {
  observer = next;
}

bool is_unobserved(Slot slot) {
  const RuleObserver* const one = observer.load(std::memory_order_relaxed);
  return one != nullptr && !one->has_begun(slot);
}

Rule Call::find_rule(Slot slot, DeviceIndex device) {
  const Found found = autocast::find_rule(slot, device);
  if (const RuleObserver* const one = observer.load(std::memory_order_relaxed)) {
    one->follow(slot, found);
  }
  TORCH_CHECK(found.rule.category != Category::banned, message_of(found, slot, device));
  TORCH_CHECK(
      found.spec == nullptr || !at::tracer::impl::is_dispatch_enabled(),
      "torch.jit.trace: a policy has a rule for ",
      name_of(slot),
      ", and traced code follows TorchScript's own cast lists; trace without the rule, or use torch.compile, which "
      "follows it");
  return found.rule;
}

}  // namespace polycast::autocast
