// Rules: the built-in ones, and policies over them.
#pragma once

#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autocast/builtin_policy.h"

namespace polycast::autocast {

// What happens to one overload on one device. `to` is the dtype of lower_precision_fp and fp32; Undefined stands for
// the region's dtype.
struct Rule {
  Category category = Category::unlisted;
  at::ScalarType to = at::ScalarType::Undefined;

  bool operator==(const Rule& other) const {
    return category == other.category && to == other.to;
  }
};

using DeviceIndex = uint8_t;  // the place of a device in devices()

// A rule as policies write it, by its category or by the dtype that replaces the region's. rule_named raises ValueError
// for any other text.
const char* name_of(Category category);
std::string name_of(const Rule& rule);
Rule rule_named(const std::string& name);

// The name by which the dispatcher knows the overload of a rule.
std::string qualified_name(const BuiltInRule& rule);

// The slot of an overload, such as "aten::conv1d.padding". An overload without a slot gets one.
Slot slot_of(const std::string& name);
const std::string& name_of(Slot slot);
DeviceIndex index_of(const std::string& device);

// The built-in rule, and its message if it bans the op.
Rule built_in_rule(Slot slot, DeviceIndex device);
Rule built_in_rule(const std::string& name, DeviceIndex device);
const char* built_in_message(Slot slot, DeviceIndex device);

// Whether policy.yaml lists an op, such as "aten::pow", on any device.
bool is_listed(const std::string& op);

// The overloads that libraries have registered of an op, as the dispatcher knows them. An overload has itself alone;
// the key "aten::mm.default" stands for the overload "aten::mm".
std::vector<std::string> overloads_of(const std::string& key);

// Why a category cannot cast an overload on a device, and a remedy after "; ". Empty if the category can.
std::string obstacle(const std::string& name, Category category, DeviceIndex device);

// What a row of a policy says of one device, and where the policy says it.
struct RuleSpec {
  Rule rule;
  std::string origin;
};

// Rules over the built-in ones. They do not change. Equal policies of Python share one while somebody holds it.
//
// A row has a RuleSpec for each device of which it says something. Its key is an overload ("aten::pow.Scalar",
// "aten::mm.default"), an op ("aten::pow"), or "*" for every overload that policy.yaml lists. The narrowest row that
// says something decides. A row says nothing of an overload that its category cannot cast, or that keeps PyTorch's
// kernel, and "*" says nothing where policy.yaml bans the op.
class Policy {
 public:
  using Row = std::vector<std::optional<RuleSpec>>;
  using Rows = std::map<std::string, Row>;

  explicit Policy(Rows rows);

  const Rows rows;

  // What the policy says of an overload on a device; nullptr for nothing. It is resolved at the first question.
  const RuleSpec* find(Slot slot, DeviceIndex device) const;
  // The same for the name of an overload, as the row that says it.
  const Rows::value_type* find_row(const std::string& name, DeviceIndex device) const;

  // For how many installations of devices its kernels were added, as the registry counts them.
  mutable std::atomic<uint64_t> added{0};

 private:
  // By slot and device. Overloads that come later than the policy have no place, and are resolved at each question.
  mutable std::vector<std::atomic<const RuleSpec*>> resolved_;
};

using PolicyPointer = std::shared_ptr<const Policy>;

// The policy of a key, which Python makes of its rows; nullptr if nobody holds one.
PolicyPointer find_policy(const std::string& key);
PolicyPointer make_policy(const std::string& key, Policy::Rows rows);

}  // namespace polycast::autocast
