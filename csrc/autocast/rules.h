// What rules say: those of policy.yaml, and the policies that patch them.
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

// What happens to one overload on one device. `to` is the type of lower_precision_fp and fp32; Undefined means that of
// the region.
struct Rule {
  Category category = Category::unlisted;
  at::ScalarType to = at::ScalarType::Undefined;

  bool operator==(const Rule& other) const {
    return category == other.category && to == other.to;
  }
};

using Column = uint8_t;  // the place of a device in devices()

// The name by which the dispatcher knows the overload of a row.
std::string qualified_name(const Row& row);

// The slot of an overload, such as "aten::conv1d.padding", which gets one where it has none.
Slot slot_of(const std::string& name);
Column column_of(const std::string& device);

// The rule of policy.yaml, and what a call that it bans is told.
Rule base_rule(Slot slot, Column column);
const char* base_message(Slot slot, Column column);

// What a policy says of one overload on one device, and where the policy says it.
struct PatchRow {
  std::string name;
  std::string device;
  Category category;
  std::optional<at::ScalarType> to;
  std::string message;  // for banned
  std::string origin;
};

// A policy: rules over others, which do not change. Equal policies share one patch while somebody holds it.
class Patch {
 public:
  struct Ruling {
    const std::string* name;
    Rule rule;
    Column column;
    uint32_t message;
    uint32_t origin;
  };

  explicit Patch(const std::vector<PatchRow>& rows);

  // What the policy says of an overload on a device, if anything.
  const Ruling* find(Slot slot, Column column) const {
    if (slot + size_t{1} >= first_.size()) {
      return nullptr;
    }
    for (uint32_t place = first_[slot]; place < first_[slot + size_t{1}]; ++place) {
      if (rulings_[place].column == column) {
        return &rulings_[place];
      }
    }
    return nullptr;
  }

  const std::string& message(const Ruling& ruling) const {
    return texts_[ruling.message];
  }
  const std::string& origin(const Ruling& ruling) const {
    return texts_[ruling.origin];
  }
  std::vector<PatchRow> rows() const;

  // For how many installations of devices its kernels were added, as the registry counts them.
  mutable std::atomic<uint64_t> added{0};
  const std::vector<Ruling>& rulings() const {
    return rulings_;
  }

 private:
  std::vector<uint32_t> first_;     // by slot, where its rulings begin; those of the next slot follow
  std::vector<Ruling> rulings_;     // ordered by slot
  std::vector<std::string> texts_;  // each once
};

using PatchPointer = std::shared_ptr<const Patch>;

// The patch of a policy, known by a digest of its rows; nullptr where nobody holds one.
PatchPointer find_patch(const std::string& digest);
PatchPointer make_patch(const std::string& digest, const std::vector<PatchRow>& rows);

}  // namespace polycast::autocast
