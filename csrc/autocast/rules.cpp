#include "autocast/rules.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "process_state.h"

namespace polycast::autocast {

namespace {

struct Tables {
  std::mutex mutex;
  std::unordered_map<std::string, Slot> slots;
  std::deque<std::string> names;                          // The index is the slot. Elements of a deque never move.
  std::map<std::string, std::weak_ptr<Policy>> policies;  // Python derives the keys from the rows.
};

Tables& tables() {
  return process_state<Tables>();
}

size_t slot_count() {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  return tables().names.size();
}

Rule rule_of(Category category) {
  return {category, category == Category::fp32 ? at::kFloat : at::ScalarType::Undefined};
}

// All rules with their names in policies: the categories, and the dtypes that override the region's.
const std::vector<std::pair<std::string, Rule>>& named_rules() {
  static const auto* const table = [] {
    // `category_docs()` does not have "unlisted".
    auto* const made = new std::vector<std::pair<std::string, Rule>>{{"unlisted", {}}};
    for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kDouble}) {
      made->emplace_back(std::string(c10::getDtypeNames(dtype).first), Rule{Category::lower_precision_fp, dtype});
    }
    for (const CategoryDoc& doc : category_docs()) {
      made->push_back({doc.name, rule_of(doc.category)});
    }
    return made;
  }();
  return *table;
}

// Returns the dispatcher's name of a rule's overload.
std::string qualified_name(const BuiltInRule& rule) {
  const std::string overload(rule.overload);
  return std::string("aten::") + rule.op + (overload == "default" ? "" : "." + overload);
}

struct BuiltIn {
  std::vector<Rule> rules;  // The index is `index_in_table(slot, device)`.
  std::map<std::string, BuiltInRow> rows;
};

size_t index_in_table(Slot slot, DeviceIndex device) {
  return static_cast<size_t>(slot) * devices().size() + device;
}

const BuiltIn& built_in() {
  static const BuiltIn* const made = [] {
    auto* const all = new BuiltIn;
    for (const BuiltInRule& rule : built_in_rules()) {
      const std::string name = qualified_name(rule);
      const DeviceIndex device = index_of(rule.device);
      BuiltInRow& row = all->rows[name];
      row.resize(devices().size());
      row[device] = &rule;
      const size_t index = index_in_table(slot_of(name), device);
      all->rules.resize(std::max(all->rules.size(), index + 1));
      all->rules[index] = rule_of(rule.category);
    }
    return all;
  }();
  return *made;
}

// The marker of an overload for which a policy has no rule.
const RuleSpec nothing{};
// The number of slots in a policy's table for overloads that get their slots later.
constexpr size_t spare_slots = 128;

}  // namespace

const std::string& name_of(const Rule& rule) {
  const auto is_it = [&](const auto& named) { return named.second == rule; };
  return std::find_if(named_rules().begin(), named_rules().end(), is_it)->first;
}

const std::string& name_of(Category category) {
  return name_of(rule_of(category));
}

Rule rule_named(const std::string& name) {
  const auto is_it = [&](const auto& named) { return named.first == name; };
  const auto found = std::find_if(named_rules().begin(), named_rules().end(), is_it);
  TORCH_INTERNAL_ASSERT(found != named_rules().end(), name);
  return found->second;
}

Slot slot_of(const std::string& name) {
  Tables& known = tables();
  const std::lock_guard<std::mutex> lock(known.mutex);
  const auto found = known.slots.find(name);
  if (found != known.slots.end()) {
    return found->second;
  }
  const size_t slot = known.names.size();
  TORCH_CHECK(
      slot <= std::numeric_limits<Slot>::max(), "policies: expected at most ", slot, " overloads, got more; use fewer");
  known.names.push_back(name);
  return known.slots[name] = static_cast<Slot>(slot);
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
  TORCH_CHECK(false, "device: expected a device of policy.yaml, got '", device, "'; check the spelling");
}

Rule built_in_rule(Slot slot, DeviceIndex device) {
  const std::vector<Rule>& rules = built_in().rules;
  const size_t index = index_in_table(slot, device);
  return index < rules.size() ? rules[index] : Rule{};  // Ops that `policy.yaml` does not list have higher slots.
}

const std::map<std::string, BuiltInRow>& built_in_rows() {
  return built_in().rows;
}

const BuiltInRow& built_in_row(const std::string& name) {
  static const BuiltInRow none(devices().size());
  const auto row = built_in_rows().find(name);
  return row == built_in_rows().end() ? none : row->second;
}

Category built_in_category(const std::string& name, DeviceIndex device) {
  const BuiltInRule* const rule = built_in_row(name)[device];
  return rule == nullptr ? Category::unlisted : rule->category;
}

c10::OperatorName operator_name(const std::string& name) {
  const size_t dot = name.find('.');
  return {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)};
}

Policy::Policy(Rows rows) : rows(std::move(rows)), resolved_((slot_count() + spare_slots) * devices().size()) {
  for (const auto& [key, row] : this->rows) {
    TORCH_INTERNAL_ASSERT(row.size() == devices().size(), key);
  }
}

const Policy::Rows::value_type* Policy::find_row(const std::string& name, DeviceIndex device) const {
  const bool is_in_every = built_in_rows().count(name) != 0 && built_in_category(name, device) != Category::banned;
  const std::string op = operator_name(name).name;
  for (const std::string& key : {op == name ? name + ".default" : name, op, std::string(is_in_every ? "*" : "")}) {
    const auto row = rows.find(key);
    if (row != rows.end() && row->second[device] &&
        obstacle(name, row->second[device]->rule.category, device).empty()) {
      return &*row;
    }
  }
  return nullptr;
}

const RuleSpec* Policy::find(Slot slot, DeviceIndex device) const {
  const size_t index = index_in_table(slot, device);
  const bool has_entry = index < resolved_.size();
  const RuleSpec* found = has_entry ? resolved_[index].load(std::memory_order_relaxed) : nullptr;
  if (found == nullptr) {
    const Rows::value_type* const row = find_row(name_of(slot), device);
    found = row == nullptr ? &nothing : &*row->second[device];
    if (has_entry) {
      resolved_[index].store(found, std::memory_order_relaxed);
    }
  }
  return found == &nothing ? nullptr : found;
}

std::vector<PolicyPointer> live_policies() {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  std::vector<PolicyPointer> live;
  for (const auto& [key, known] : tables().policies) {
    if (PolicyPointer policy = known.lock()) {
      live.push_back(std::move(policy));
    }
  }
  return live;
}

PolicyPointer policy_of(const std::string& key, Policy::Rows rows) {
  auto policy = std::make_shared<Policy>(std::move(rows));
  const std::lock_guard<std::mutex> lock(tables().mutex);
  auto& policies = tables().policies;
  for (auto known = policies.begin(); known != policies.end();) {
    known = known->second.expired() ? policies.erase(known) : std::next(known);
  }
  if (PolicyPointer known = policies[key].lock()) {
    return known;
  }
  policies[key] = policy;
  return policy;
}

}  // namespace polycast::autocast
