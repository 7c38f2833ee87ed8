// The built-in rules, and the policies that override them.
#pragma once

#include <ATen/core/operator_name.h>
#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autocast/builtin_policy.h"

namespace c10 {
struct Argument;
struct FunctionSchema;
}  // namespace c10

namespace polycast::autocast {

// The rule of one overload on one device. `to` is the dtype of `lower_precision_fp` and `fp32`; `Undefined` means the
// dtype of the region.
struct Rule {
  Category category = Category::unlisted;
  at::ScalarType to = at::ScalarType::Undefined;

  bool operator==(const Rule& other) const {
    return category == other.category && to == other.to;
  }
};

using DeviceIndex = uint8_t;  // An index into `devices()`.

// Returns the name of a rule in policies: its category, or the dtype that overrides the region's. `rule_named` returns
// the rule with a name.
const std::string& name_of(Category category);
const std::string& name_of(const Rule& rule);
Rule rule_named(const std::string& name);

// Returns the slot of an overload, such as "aten::conv1d.padding". An overload without a slot receives the next one.
Slot slot_of(const std::string& name);
const std::string& name_of(Slot slot);
DeviceIndex index_of(const std::string& device);

// The built-in rules by overload and device. `nullptr` means that `policy.yaml` has no rule.
using BuiltInRow = std::vector<const BuiltInRule*>;
const std::map<std::string, BuiltInRow>& built_in_rows();
// Returns the row of an overload. Without a rule in `policy.yaml`, each of its elements is `nullptr`.
const BuiltInRow& built_in_row(const std::string& name);
Category built_in_category(const std::string& name, DeviceIndex device);

// Returns the built-in rule of an overload on a device.
Rule built_in_rule(Slot slot, DeviceIndex device);

// Splits the dispatcher's name of an overload into the op and the overload name.
c10::OperatorName operator_name(const std::string& name);

// Returns the dispatcher's names of a key's overloads. The key is an op, an overload ("aten::mm.default" means
// "aten::mm"), or "*" for all overloads that `policy.yaml` lists.
std::vector<std::string> overloads_of(const std::string& key);

// Returns why a category cannot cast an overload on a device, and a remedy after "; ". Returns an empty string if the
// category can cast the overload.
std::string obstacle(const std::string& name, Category category, DeviceIndex device);

// Returns whether an argument is an optional dtype, which `fp32_set_opt_dtype` can set.
bool is_optional_dtype(const c10::Argument& argument);

// Returns whether an op may write to its running statistics, as `batch_norm` does. Its schema omits the write.
bool updates_statistics(const c10::FunctionSchema& schema);

// A rule of a policy's row on one device, and the source of the rule in the policy.
struct RuleSpec {
  Rule rule;
  std::string origin;
};

// An immutable set of rules that override the built-in ones. Equal policies in Python share one object.
//
// A row has an optional `RuleSpec` for each device. The row's key is an overload ("aten::pow.Scalar",
// "aten::mm.default"), an op ("aten::pow"), or "*" for every overload that `policy.yaml` lists. The narrowest row with
// a rule applies. A row does not apply to an overload that the row's rule cannot cast, or whose built-in rule is stock.
// On a device on which `policy.yaml` bans an overload, the row "*" does not apply to the overload.
class Policy {
 public:
  using Row = std::vector<std::optional<RuleSpec>>;
  using Rows = std::map<std::string, Row>;

  explicit Policy(Rows rows);

  const Rows rows;

  // Returns the rule of an overload on a device, or `nullptr`. The first call resolves the rule.
  const RuleSpec* find(Slot slot, DeviceIndex device) const;
  // Returns the row with the rule of an overload on a device, or `nullptr`.
  const Rows::value_type* find_row(const std::string& name, DeviceIndex device) const;

  // The registry's count of installations when the policy's kernels were last added.
  mutable std::atomic<uint64_t> added{0};

 private:
  // The index is `index_in_table(slot, device)`. An overload whose slot is not in the table is resolved at each call.
  mutable std::vector<std::atomic<const RuleSpec*>> resolved_;
};

using PolicyPointer = std::shared_ptr<Policy>;  // pybind11 does not support pointers to const.

// Returns the policy with this key, or makes one with the rows. Python derives a policy's key from its rows.
PolicyPointer policy_of(const std::string& key, Policy::Rows rows);
std::vector<PolicyPointer> live_policies();

}  // namespace polycast::autocast
