#include "autocast/rules.h"

#include <c10/util/Exception.h>

#include <algorithm>
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

// Entries of the map stay where they are.
const std::pair<const std::string, Slot>& slot_entry(const std::string& name) {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  return *tables().slots.emplace(name, static_cast<Slot>(tables().slots.size())).first;
}

Rule rule_of(Category category, std::optional<at::ScalarType> to) {
  return {category, to.value_or(category == Category::fp32 ? at::kFloat : at::ScalarType::Undefined)};
}

struct Base {
  std::vector<Rule> rules;
  std::unordered_map<size_t, const char*> messages;
};

size_t place_of(Slot slot, Column column) {
  return static_cast<size_t>(slot) * devices().size() + column;
}

const Base& base() {
  static const Base* const made = [] {
    auto* const base = new Base;
    for (const Row& row : rows()) {
      const size_t place = place_of(slot_of(qualified_name(row)), column_of(row.device));
      base->rules.resize(std::max(base->rules.size(), place + 1));
      base->rules[place] = rule_of(row.category, std::nullopt);
      if (row.category == Category::banned) {
        base->messages[place] = row.message;
      }
    }
    return base;
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

std::string qualified_name(const Row& row) {
  const std::string overload(row.overload);
  return std::string("aten::") + row.op + (overload == "default" ? "" : "." + overload);
}

Slot slot_of(const std::string& name) {
  return slot_entry(name).second;
}

Column column_of(const std::string& device) {
  for (size_t column = 0; column < devices().size(); ++column) {
    if (device == devices()[column].name) {
      return static_cast<Column>(column);
    }
  }
  TORCH_CHECK(false, "polycast has no device '", device, "' in its policy");
}

Rule base_rule(Slot slot, Column column) {
  const std::vector<Rule>& rules = base().rules;
  const size_t place = place_of(slot, column);
  return place < rules.size() ? rules[place] : Rule{};  // of an op that policy.yaml does not list
}

const char* base_message(Slot slot, Column column) {
  return base().messages.at(place_of(slot, column));
}

Policy::Policy(const std::vector<StatedRule>& stated) {
  std::vector<std::pair<Slot, PlacedRule>> found;
  std::unordered_map<std::string, uint32_t> places;
  const auto place_of_text = [&](const std::string& text) {
    const auto [entry, is_new] = places.emplace(text, static_cast<uint32_t>(texts_.size()));
    if (is_new) {
      texts_.push_back(text);
    }
    return entry->second;
  };
  for (const StatedRule& row : stated) {
    const auto& [name, slot] = slot_entry(row.name);
    const Column column = column_of(row.device);
    const Rule rule = rule_of(row.category, row.to);
    found.emplace_back(slot, PlacedRule{&name, rule, column, place_of_text(row.message), place_of_text(row.origin)});
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
  std::vector<StatedRule> rows;
  for (const PlacedRule& placed : placed_) {
    const at::ScalarType to = placed.rule.to;
    const bool has_type = placed.rule.category == Category::lower_precision_fp && to != at::ScalarType::Undefined;
    rows.push_back(
        {*placed.name,
         devices()[placed.column].name,
         placed.rule.category,
         has_type ? std::optional(to) : std::nullopt,
         message(placed),
         origin(placed)});
  }
  return rows;
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
