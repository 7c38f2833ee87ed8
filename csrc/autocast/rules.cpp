#include "autocast/rules.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace polycast::autocast {

namespace {

constexpr const char* unlisted = "unlisted";  // the one category that policy.yaml has no sentence for

// Python calls what takes the lock, and holds its own meanwhile, as it does while a process forks.
struct Tables {
  std::mutex mutex;
  std::map<std::string, Slot> slots;
  std::map<std::string, std::weak_ptr<const Policy>> policies;  // by digest
};

Tables& tables() {
  // Never destroyed: other threads may run to the very end.
  static Tables* const instance = new Tables;
  return *instance;
}

// Returns a reference into the map, whose elements stay where they are.
const std::pair<const std::string, Slot>& name_and_slot(const std::string& name) {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  auto& slots = tables().slots;
  const auto known = slots.find(name);
  if (known != slots.end()) {
    return *known;
  }
  TORCH_CHECK(
      slots.size() <= std::numeric_limits<Slot>::max(),
      "policies can name ",
      slots.size(),
      " overloads, not also ",
      name);
  return *slots.emplace(name, static_cast<Slot>(slots.size())).first;
}

Rule rule_of(Category category, std::optional<at::ScalarType> to) {
  return {category, to.value_or(category == Category::fp32 ? at::kFloat : at::ScalarType::Undefined)};
}

struct BuiltIn {
  std::vector<Rule> rules;
  std::unordered_map<size_t, const char*> messages;
};

size_t place_of(Slot slot, DeviceIndex device) {
  return static_cast<size_t>(slot) * devices().size() + device;
}

const BuiltIn& built_in() {
  static const BuiltIn* const made = [] {
    auto* const all = new BuiltIn;
    for (const BuiltInRule& rule : built_in_rules()) {
      const size_t place = place_of(slot_of(qualified_name(rule)), index_of(rule.device));
      all->rules.resize(std::max(all->rules.size(), place + 1));
      all->rules[place] = rule_of(rule.category, std::nullopt);
      if (rule.category == Category::banned) {
        all->messages[place] = rule.message;
      }
    }
    return all;
  }();
  return *made;
}

}  // namespace

const char* name_of(Category category) {
  for (const Sentence& sentence : sentences()) {
    if (sentence.category == category) {
      return sentence.name;
    }
  }
  return unlisted;
}

Category category_of(const std::string& name) {
  if (name == unlisted) {
    return Category::unlisted;
  }
  for (const Sentence& sentence : sentences()) {
    if (name == sentence.name) {
      return sentence.category;
    }
  }
  TORCH_CHECK_VALUE(false, "no category '", name, "'");
}

std::string qualified_name(const BuiltInRule& rule) {
  const std::string overload(rule.overload);
  return std::string("aten::") + rule.op + (overload == "default" ? "" : "." + overload);
}

Slot slot_of(const std::string& name) {
  return name_and_slot(name).second;
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
  return place < rules.size() ? rules[place] : Rule{};  // of an op that policy.yaml does not list
}

const char* built_in_message(Slot slot, DeviceIndex device) {
  return built_in().messages.at(place_of(slot, device));
}

Policy::Policy(const std::vector<StatedRule>& stated) {
  std::vector<std::pair<Slot, PlacedRule>> found;
  std::unordered_map<std::string, uint32_t> places;
  const auto place_of_text = [&](const std::string& text) {
    const auto [place, is_new] = places.emplace(text, static_cast<uint32_t>(texts_.size()));
    if (is_new) {
      texts_.push_back(text);
    }
    return place->second;
  };
  for (const StatedRule& said : stated) {
    const auto& [name, slot] = name_and_slot(said.name);
    const DeviceIndex device = index_of(said.device);
    const Rule rule = rule_of(said.category, said.to);
    found.emplace_back(slot, PlacedRule{&name, rule, device, place_of_text(said.message), place_of_text(said.origin)});
  }
  std::stable_sort(
      found.begin(), found.end(), [](const auto& one, const auto& other) { return one.first < other.first; });
  for (const auto& [slot, placed] : found) {
    first_.resize(std::max<size_t>(first_.size(), slot + size_t{1}), static_cast<uint32_t>(placed_.size()));
    placed_.push_back(placed);
  }
  first_.push_back(static_cast<uint32_t>(placed_.size()));
}

std::vector<StatedRule> Policy::stated() const {
  std::vector<StatedRule> stated;
  for (const PlacedRule& placed : placed_) {
    const at::ScalarType to = placed.rule.to;
    const bool has_type = placed.rule.category == Category::lower_precision_fp && to != at::ScalarType::Undefined;
    stated.push_back(
        {*placed.name,
         devices()[placed.device].name,
         placed.rule.category,
         has_type ? std::optional(to) : std::nullopt,
         message(placed),
         origin(placed)});
  }
  return stated;
}

PolicyPointer find_policy(const std::string& digest) {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  const auto known = tables().policies.find(digest);
  return known == tables().policies.end() ? nullptr : known->second.lock();
}

PolicyPointer make_policy(const std::string& digest, const std::vector<StatedRule>& stated) {
  auto policy = std::make_shared<const Policy>(stated);
  const std::lock_guard<std::mutex> lock(tables().mutex);
  auto& policies = tables().policies;
  for (auto known = policies.begin(); known != policies.end();) {
    known = known->second.expired() ? policies.erase(known) : std::next(known);
  }
  policies[digest] = policy;
  return policy;
}

}  // namespace polycast::autocast
