#include "autocast/rules.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace polycast::autocast {

namespace {

constexpr const char* unlisted = "unlisted";  // the only category without a sentence in policy.yaml
constexpr std::array replacing_dtypes{at::kHalf, at::kBFloat16, at::kDouble};

// Callers of the functions that lock hold the GIL, and a process forks with the GIL held, so the lock is free in a
// fork.
struct Tables {
  std::mutex mutex;
  std::unordered_map<std::string, Slot> slots;
  std::deque<std::string> names;                                // by slot; elements never move
  std::map<std::string, std::weak_ptr<const Policy>> policies;  // by key
};

Tables& tables() {
  // Never destroyed, because other threads can outlive static objects.
  static Tables* const instance = new Tables;
  return *instance;
}

size_t slot_count() {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  return tables().names.size();
}

Rule rule_of(Category category) {
  return {category, category == Category::fp32 ? at::kFloat : at::ScalarType::Undefined};
}

struct BuiltIn {
  std::vector<Rule> rules;
  std::unordered_map<size_t, const char*> messages;
  std::unordered_map<std::string, Slot> overloads;
  std::set<std::string> ops;
};

size_t place_of(Slot slot, DeviceIndex device) {
  return static_cast<size_t>(slot) * devices().size() + device;
}

const BuiltIn& built_in() {
  static const BuiltIn* const made = [] {
    auto* const all = new BuiltIn;
    for (const BuiltInRule& rule : built_in_rules()) {
      const std::string name = qualified_name(rule);
      const Slot slot = all->overloads.emplace(name, slot_of(name)).first->second;
      const size_t place = place_of(slot, index_of(rule.device));
      all->rules.resize(std::max(all->rules.size(), place + 1));
      all->rules[place] = rule_of(rule.category);
      all->ops.insert(name.substr(0, name.find('.')));
      if (rule.category == Category::banned) {
        all->messages[place] = rule.message;
      }
    }
    return all;
  }();
  return *made;
}

// Marks that a policy has no rule for an overload.
const RuleSpec nothing{};
// Entries for overloads that get their slots after the policy was constructed.
constexpr size_t spare_slots = 128;

}  // namespace

const char* name_of(Category category) {
  for (const CategoryDoc& doc : category_docs()) {
    if (doc.category == category) {
      return doc.name;
    }
  }
  return unlisted;
}

std::string name_of(const Rule& rule) {
  const bool replaces = rule.category == Category::lower_precision_fp && rule.to != at::ScalarType::Undefined;
  return replaces ? std::string(c10::getDtypeNames(rule.to).first) : std::string(name_of(rule.category));
}

Rule rule_named(const std::string& name) {
  for (const at::ScalarType dtype : replacing_dtypes) {
    if (name == c10::getDtypeNames(dtype).first) {
      return {Category::lower_precision_fp, dtype};
    }
  }
  for (const CategoryDoc& doc : category_docs()) {
    if (name == doc.name) {
      return rule_of(doc.category);
    }
  }
  TORCH_CHECK_VALUE(name == unlisted, "no category '", name, "'");
  return {};
}

std::string qualified_name(const BuiltInRule& rule) {
  const std::string overload(rule.overload);
  return std::string("aten::") + rule.op + (overload == "default" ? "" : "." + overload);
}

Slot slot_of(const std::string& name) {
  Tables& known = tables();
  const std::lock_guard<std::mutex> lock(known.mutex);
  const auto [found, is_new] = known.slots.try_emplace(name, static_cast<Slot>(known.names.size()));
  if (is_new) {
    TORCH_CHECK(
        known.names.size() <= std::numeric_limits<Slot>::max(), "policies name more overloads than ", found->second);
    known.names.push_back(name);
  }
  return found->second;
}

const std::string& name_of(Slot slot) {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  return tables().names.at(slot);
}

DeviceIndex index_of(const std::string& device) {
  for (size_t index = 0; index < devices().size(); ++index) {
    if (device == devices()[index].name) {
      return static_cast<DeviceIndex>(index);
    }
  }
  TORCH_CHECK(false, "polycast has no device '", device, "' in its policy");
}

Rule built_in_rule(Slot slot, DeviceIndex device) {
  const std::vector<Rule>& rules = built_in().rules;
  const size_t place = place_of(slot, device);
  return place < rules.size() ? rules[place] : Rule{};  // the op is not in policy.yaml
}

Rule built_in_rule(const std::string& name, DeviceIndex device) {
  const auto listed = built_in().overloads.find(name);
  return listed == built_in().overloads.end() ? Rule{} : built_in_rule(listed->second, device);
}

const char* built_in_message(Slot slot, DeviceIndex device) {
  return built_in().messages.at(place_of(slot, device));
}

bool is_listed(const std::string& op) {
  return built_in().ops.count(op) != 0;
}

Policy::Policy(Rows rows) : rows(std::move(rows)), resolved_((slot_count() + spare_slots) * devices().size()) {}

const Policy::Rows::value_type* Policy::find_row(const std::string& name, DeviceIndex device) const {
  const size_t dot = name.find('.');
  const std::string op = name.substr(0, dot);
  const bool is_default =
      built_in().overloads.count(name) != 0 && built_in_rule(name, device).category != Category::banned;
  for (const std::string& key : {dot == std::string::npos ? name + ".default" : name, op, std::string("*")}) {
    const auto row = rows.find(key);
    if (row == rows.end() || !row->second[device] || (key == "*" && !is_default)) {
      continue;
    }
    if (obstacle(name, row->second[device]->rule.category, device).empty()) {
      return &*row;
    }
  }
  return nullptr;
}

const RuleSpec* Policy::find(Slot slot, DeviceIndex device) const {
  const size_t place = place_of(slot, device);
  const bool has_place = place < resolved_.size();
  const RuleSpec* found = has_place ? resolved_[place].load(std::memory_order_relaxed) : nullptr;
  if (found == nullptr) {
    const Rows::value_type* const row = find_row(name_of(slot), device);
    found = row == nullptr ? &nothing : &*row->second[device];
    if (has_place) {
      resolved_[place].store(found, std::memory_order_relaxed);
    }
  }
  return found == &nothing ? nullptr : found;
}

PolicyPointer find_policy(const std::string& key) {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  const auto known = tables().policies.find(key);
  return known == tables().policies.end() ? nullptr : known->second.lock();
}

PolicyPointer make_policy(const std::string& key, Policy::Rows rows) {
  auto policy = std::make_shared<const Policy>(std::move(rows));
  const std::lock_guard<std::mutex> lock(tables().mutex);
  auto& policies = tables().policies;
  for (auto known = policies.begin(); known != policies.end();) {
    known = known->second.expired() ? policies.erase(known) : std::next(known);
  }
  policies[key] = policy;
  return policy;
}

}  // namespace polycast::autocast
