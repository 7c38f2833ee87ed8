#include "autocast/rules.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace polycast::autocast {

namespace {

struct Tables {
  std::mutex mutex;
  std::map<std::string, Slot> slots;
  std::deque<Rules> patched;  // whose elements stay in place
};

Tables& tables() {
  // Never destroyed: other threads may run to the very end.
  static Tables* const instance = new Tables;
  return *instance;
}

Rule rule_of(Category category, std::optional<at::ScalarType> to) {
  return {category, to.value_or(category == Category::fp32 ? at::kFloat : at::ScalarType::Undefined)};
}

constexpr auto type_count = static_cast<size_t>(at::ScalarType::NumOptions);

std::atomic<const Rules*> of_process{nullptr};
std::array<std::atomic<const Rules*>, type_count> numbered{};
std::array<std::atomic<int64_t>, type_count> uses{};
std::atomic<c10::DeviceType> carrier{c10::DeviceType::CPU};
std::atomic<c10::DispatchKey> carrier_key{c10::DispatchKey::Undefined};

// What held before an entry: of the carrier its dtype too where it is not enabled, as torch.compile compares that.
struct Before {
  std::optional<Region> region;
  bool has_number;
  at::ScalarType number;
  std::optional<at::ScalarType> entered;  // what the entry is counted as a use of
};

// A thread that ends in a region is in it no more.
struct Entered : std::vector<Before> {
  ~Entered() {
    for (const Before& before : *this) {
      if (before.entered) {
        --uses[static_cast<size_t>(*before.entered)];
      }
    }
  }
};

thread_local Entered entered;

Region region_of(c10::DeviceType device) {
  return {
      device,
      at::autocast::get_autocast_dtype(device),
      at::autocast::is_autocast_enabled(device),
      at::autocast::is_autocast_cache_enabled()};
}

void set_region(const Region& region) {
  at::autocast::set_autocast_enabled(region.device, region.enabled);
  at::autocast::set_autocast_dtype(region.device, region.lower_precision);
  at::autocast::set_autocast_cache_enabled(region.cache_enabled);
}

}  // namespace

void Rules::set(Slot slot, Column column, Rule rule, std::string message) {
  const size_t place = place_of(slot, column);
  if (place >= rules_.size()) {
    rules_.resize(place + 1);
  }
  rules_[place] = rule;
  if (rule.category == Category::banned) {
    messages_[place] = std::move(message);
  }
}

std::string qualified_name(const Row& row) {
  const std::string overload(row.overload);
  return std::string("aten::") + row.op + (overload == "default" ? "" : "." + overload);
}

Slot slot_of(const std::string& name) {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  return tables().slots.emplace(name, static_cast<Slot>(tables().slots.size())).first->second;
}

std::unordered_map<std::string, Slot> known_slots() {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  return {tables().slots.begin(), tables().slots.end()};
}

Column column_of(const std::string& device) {
  for (size_t column = 0; column < devices().size(); ++column) {
    if (device == devices()[column].name) {
      return static_cast<Column>(column);
    }
  }
  TORCH_CHECK(false, "polycast has no device '", device, "' in its policy");
}

const Rules& base_rules() {
  static const Rules* const rules = [] {
    auto* const made = new Rules;
    for (const Row& row : rows()) {
      made->set(slot_of(qualified_name(row)), column_of(row.device), rule_of(row.category, std::nullopt), row.message);
    }
    return made;
  }();
  return *rules;
}

const Rules& patched_rules(const std::vector<Patch>& patches) {
  Rules rules = base_rules();
  for (const Patch& patch : patches) {
    rules.set(slot_of(patch.name), column_of(patch.device), rule_of(patch.category, patch.to), patch.message);
  }
  const std::lock_guard<std::mutex> lock(tables().mutex);
  std::deque<Rules>& made = tables().patched;
  const auto equal = std::find(made.begin(), made.end(), rules);
  return equal == made.end() ? made.emplace_back(std::move(rules)) : *equal;
}

void use(const Rules& rules) {
  of_process = &rules;
}

void set_carrier(c10::DeviceType device) {
  carrier = device;
  carrier_key = at::autocast::get_autocast_dispatch_key_from_device_type(device);
}

void set_numbered(at::ScalarType number, const Rules* rules) {
  numbered.at(static_cast<size_t>(number)) = rules;
}

std::optional<at::ScalarType> number_in_force() {
  const c10::DispatchKey key = carrier_key.load(std::memory_order_relaxed);
  if (c10::impl::tls_local_dispatch_key_set().excluded_.has(key)) {
    return std::nullopt;
  }
  return at::autocast::get_autocast_dtype(carrier.load(std::memory_order_relaxed));
}

int64_t uses_of(at::ScalarType number) {
  return uses[static_cast<size_t>(number)];
}

void enter(std::optional<Region> region, std::optional<at::ScalarType> number) {
  Before before{std::nullopt, number_in_force().has_value(), at::autocast::get_autocast_dtype(carrier), number};
  if (region) {
    before.region = region_of(region->device);
    at::autocast::increment_nesting();
    set_region(*region);
  }
  if (number) {
    ++uses[static_cast<size_t>(*number)];
    at::autocast::set_autocast_enabled(carrier, true);
    at::autocast::set_autocast_dtype(carrier, *number);
  }
  entered.push_back(before);
}

void leave() {
  TORCH_CHECK(!entered.empty(), "this thread is in no region with a policy");
  const Before before = entered.back();
  entered.pop_back();
  if (before.entered) {
    --uses[static_cast<size_t>(*before.entered)];
  }
  at::autocast::set_autocast_enabled(carrier, before.has_number);
  at::autocast::set_autocast_dtype(carrier, before.number);
  if (before.region) {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    set_region(*before.region);
  }
}

size_t depth() {
  return entered.size();
}

void leave_to(size_t depth) {
  while (entered.size() > depth) {
    leave();
  }
}

const Rules& rules_in_force() {
  if (const std::optional<at::ScalarType> number = number_in_force()) {
    if (const Rules* const rules = numbered[static_cast<size_t>(*number)].load(std::memory_order_acquire)) {
      return *rules;
    }
  }
  const Rules* const rules = of_process.load(std::memory_order_acquire);
  return rules != nullptr ? *rules : base_rules();
}

}  // namespace polycast::autocast
