// Rules: the built-in ones, and policies over them.
#pragma once

#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "autocast/table.h"

namespace polycast::autocast {

// What happens to one overload on one device. `to` is the dtype of lower_precision_fp and fp32; Undefined means that of
// the region.
struct Rule {
  Category category = Category::unlisted;
  at::ScalarType to = at::ScalarType::Undefined;

  bool operator==(const Rule& other) const {
    return category == other.category && to == other.to;
  }
};

using DeviceIndex = uint8_t;  // the place of a device in devices()

// The name of a category, as policy.yaml and rules write it; raises ValueError for a name of none.
const char* name_of(Category category);
Category category_of(const std::string& name);

// The name by which the dispatcher knows the overload of a rule.
std::string qualified_name(const BuiltInRule& rule);

// The slot of an overload, such as "aten::conv1d.padding", which gets one where it has none.
Slot slot_of(const std::string& name);
DeviceIndex index_of(const std::string& device);

// The built-in rule, and its message if it bans the op.
Rule built_in_rule(Slot slot, DeviceIndex device);
const char* built_in_message(Slot slot, DeviceIndex device);

// What a policy says of one overload on one device, and where the policy says it.
struct StatedRule {
  std::string name;
  std::string device;
  Category category;
  std::optional<at::ScalarType> to;
  std::string message;  // for banned
  std::string origin;
};

// Rules over the built-in ones. They do not change. Equal policies of Python share one while somebody holds it.
class Policy {
 public:
  struct PlacedRule {
    const std::string* name;
    Rule rule;
    DeviceIndex device;
    uint32_t message;
    uint32_t origin;
  };

  explicit Policy(const std::vector<StatedRule>& stated);

  // What the policy says of an overload on a device, if anything.
  const PlacedRule* find(Slot slot, DeviceIndex device) const {
    if (slot + size_t{1} >= first_.size()) {
      return nullptr;
    }
    for (uint32_t place = first_[slot]; place < first_[slot + size_t{1}]; ++place) {
      if (placed_[place].device == device) {
        return &placed_[place];
      }
    }
    return nullptr;
  }

  const std::string& message(const PlacedRule& placed) const {
    return texts_[placed.message];
  }
  const std::string& origin(const PlacedRule& placed) const {
    return texts_[placed.origin];
  }
  std::vector<StatedRule> stated() const;

  // For how many installations of devices its kernels were added, as the registry counts them.
  mutable std::atomic<uint64_t> added{0};
  const std::vector<PlacedRule>& rules() const {
    return placed_;
  }

 private:
  std::vector<uint32_t> first_;     // by slot, where its rules begin; those of the next slot follow
  std::vector<PlacedRule> placed_;  // ordered by slot
  std::vector<std::string> texts_;  // each once
};

using PolicyPointer = std::shared_ptr<const Policy>;

// The policy of a digest, which Python makes of its rules and their places; nullptr if nobody holds one.
PolicyPointer find_policy(const std::string& digest);
PolicyPointer make_policy(const std::string& digest, const std::vector<StatedRule>& stated);

}  // namespace polycast::autocast
