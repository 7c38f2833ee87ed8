// Where policies hold: in the process, in regions and in modules. Each thread enters and leaves them for itself.
//
// Note [How does a thread know which policies hold?]
// A scope is the list of the policies that hold, the one that decides first at the front and the process's policy at
// the end. Scopes do not change, and equal lists share one while it is used. Each thread keeps what it has
// entered in a stack of frames, each with its scope. A new policy of the process changes the scopes of all threads: it
// counts a version up, and a thread that finds another version than its own replaces the scopes of its frames. So
// the id of a scope says all that decides about rules, and torch.compile guards it.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "autocast/rules.h"

namespace polycast::autocast {

// Who says a rule. The first one decides.
enum class Layer : uint8_t { over, module, region, process, built_in };
const char* name_of(Layer layer);

// See Note [How does a thread know which policies hold?].
class PolicyScope {
 public:
  struct Part {
    Layer layer;
    PolicyPointer policy;
  };

  explicit PolicyScope(std::vector<Part> parts);

  const uint64_t id;  // No other scope ever has it.
  const std::vector<Part> parts;
};

using ScopePointer = std::shared_ptr<const PolicyScope>;  // nullptr is the scope of no policy

// Returns the scope of a policy that is entered in another scope. In its layer the policy decides over the others.
ScopePointer scope_within(const ScopePointer& outer, Layer layer, const PolicyPointer& policy);

// What an autocast region sets for its device. What is absent stays.
struct Region {
  c10::DeviceType device;
  std::optional<at::ScalarType> lower_precision;
  bool enabled;
  std::optional<bool> cache_enabled;
};

// What a with statement enters: a region, a policy, both, or a scope that held before. Any number of threads may enter
// one, again while they are in it.
struct ScopeGuard {
  std::optional<Region> region;
  Layer layer = Layer::region;
  PolicyPointer policy;
  std::optional<ScopePointer> scope;  // a later policy of the process does not change it
};

using GuardPointer = std::shared_ptr<const ScopeGuard>;

void enter(const GuardPointer& guard);
// Leaves this thread's latest frame of the guard, and what was entered in it and not left. Does nothing in a thread
// that is not in it.
void leave(const GuardPointer& guard);

// For compiled code, which nests as its text does.
void enter(const ScopePointer& scope, std::optional<Region> region);
void leave_latest();
// The number of frames of this thread. leave_to leaves those above a number.
size_t depth();
void leave_to(size_t depth);

// The scope that this thread is in. The pointer lives until this thread enters or leaves something, or asks again.
const PolicyScope* scope_in_force();
ScopePointer share_scope_in_force();
// The id of the scope that this thread is in. The scope of no policy has one, too.
uint64_t id_in_force();

// Keeps a scope until the end of the process, so that compiled code can name it by its id.
void keep(const ScopePointer& scope);
ScopePointer kept(uint64_t id);

// Gives all scopes other ids, after a change of the kernels: code that was compiled before does not run again.
void renew_ids();

// Sets the policy of the process. nullptr is none.
void use(PolicyPointer policy);
PolicyPointer used();

// The rule that this thread follows, and who says it. The RuleSpec is nullptr where the rule is built in, and lives as
// long as the scope in force.
struct Found {
  Rule rule;
  Layer layer = Layer::built_in;
  const RuleSpec* spec = nullptr;
};
Found find_rule(Slot slot, DeviceIndex device);
// The message of a banned call.
std::string message_of(const Found& found, Slot slot, DeviceIndex device);

// The scopes in use.
std::vector<ScopePointer> live_scopes();

}  // namespace polycast::autocast
