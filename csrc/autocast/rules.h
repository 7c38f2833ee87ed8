// The rules that calls follow: the policy's own, those of the process, or those of a region.
//
// Note [The number of a policy]
// Which rules hold in a region is a number that rides on torch's autocast state of a device that nobody has, the
// carrier: the carrier is enabled, and its dtype is the number. So it belongs to the thread as the region does, ends
// where the region ends, and torch.compile guards it, which guards the state of every device: a region with other rules
// compiles anew, and one with the same rules finds its code. No op is changed by it, since no tensor has the carrier's
// key.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "autocast/table.h"

namespace polycast::autocast {

// What happens to one overload on one device. `to` is the type of lower_precision_fp and fp32; Undefined means that of
// the region.
struct Rule {
  Category category = Category::fallthrough;
  at::ScalarType to = at::ScalarType::Undefined;

  bool operator==(const Rule& other) const {
    return category == other.category && to == other.to;
  }
};

using Column = uint8_t;  // the place of a device in devices()

// A rule for each overload on each device.
class Rules {
 public:
  Rule at(Slot slot, Column column) const {
    const size_t place = place_of(slot, column);
    return place < rules_.size() ? rules_[place] : Rule{};  // of an op that was named after these rules were made
  }

  void set(Slot slot, Column column, Rule rule, std::string message);
  // What a banned call is told.
  const std::string& message(Slot slot, Column column) const {
    return messages_.at(place_of(slot, column));
  }

  bool operator==(const Rules& other) const {
    return rules_ == other.rules_ && messages_ == other.messages_;
  }

 private:
  static size_t place_of(Slot slot, Column column) {
    return static_cast<size_t>(slot) * devices().size() + column;
  }

  std::vector<Rule> rules_;
  std::unordered_map<size_t, std::string> messages_;
};

// The name by which the dispatcher knows the overload of a row.
std::string qualified_name(const Row& row);

// The slot of an overload, such as "aten::conv1d.padding", which gets one where it has none.
Slot slot_of(const std::string& name);
std::unordered_map<std::string, Slot> known_slots();
Column column_of(const std::string& device);

// The rules of policy.yaml.
const Rules& base_rules();

// Rules of a patch over those of policy.yaml. They live as long as the process, since any thread may be following them;
// patches that come to the same share them.
struct Patch {
  std::string name;
  std::string device;
  Category category;
  std::optional<at::ScalarType> to;
  std::string message;
};
const Rules& patched_rules(const std::vector<Patch>& patches);

// Makes rules those of the process, wherever no region has others.
void use(const Rules& rules);

// See Note [The number of a policy].
void set_carrier(c10::DeviceType device);
void set_numbered(at::ScalarType number, const Rules* rules);
// The number in this thread, if any.
std::optional<at::ScalarType> number_in_force();
// How many regions and modules, of all threads, are in the rules of a number.
int64_t uses_of(at::ScalarType number);

// What an autocast region says of its device.
struct Region {
  c10::DeviceType device;
  at::ScalarType lower_precision;
  bool enabled;
  bool cache_enabled;
};

// Enters the rules of a number, and the region where there is one, until they are left in this thread.
void enter(std::optional<Region> region, std::optional<at::ScalarType> number);
void leave();
// How often this thread has entered and not left; leave_to leaves what was entered since it was that much.
size_t depth();
void leave_to(size_t depth);

// The rules that hold in this thread.
const Rules& rules_in_force();

}  // namespace polycast::autocast
