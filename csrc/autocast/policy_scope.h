// The scopes of policies: the process, regions and modules. Each thread enters and leaves its own scopes.
//
// Note [How does a thread know the active policies?]
// Several policies can be active at once, and a call needs the first policy with a rule for its op. A scope is the list
// of the active policies in order of precedence, with any policy of the process at the end. Scopes are immutable, and
// equal lists share one scope. Each thread has a stack of frames: one for each region, policy or earlier scope that the
// thread has entered. Each frame has a scope. A new policy of the process affects all threads. `use()` increments a
// version, and each thread that finds a newer version replaces the scopes of its frames. The id of a scope therefore
// identifies all rules that apply, and `torch.compile` guards on this id.
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

// The sources of rules, from the highest precedence to the lowest.
enum class Layer : uint8_t { over, module, region, process, built_in };
const char* name_of(Layer layer);

// The active policies: see Note [How does a thread know the active policies?].
class PolicyScope {
 public:
  struct Part {
    Layer layer;
    PolicyPointer policy;
  };

  explicit PolicyScope(std::vector<Part> parts);

  const uint64_t id;  // No other scope ever has this id.
  const std::vector<Part> parts;
};

using ScopePointer = std::shared_ptr<PolicyScope>;  // `nullptr` is the scope without a policy.

// The autocast state that a region sets for its device. An absent value changes nothing.
struct Region {
  c10::DeviceType device;
  std::optional<at::ScalarType> lower_precision;
  bool enabled;
  std::optional<bool> cache_enabled;
};

// The settings of a `with` statement, which enters an earlier scope, a policy, a region, or several of these. Threads
// may share a guard, and enter the guard repeatedly.
struct ScopeGuard {
  Layer layer;  // The policy overrides the other policies of this layer.
  PolicyPointer policy;
  std::optional<Region> region;
  std::optional<ScopePointer> scope;  // The process's policy in this scope applies until `use()` sets another one.
};

// Enters a guard in a frame of `owner`, the object of the `with` statement. Equal regions share a guard.
void enter(const ScopeGuard& guard, const void* owner);
// Leaves this thread's latest frame of the owner, and all frames within that frame. Does nothing in a thread without a
// frame of the owner.
void leave(const void* owner);

// Compiled code and repeated calls, in which regions always nest, enter frames without an owner.
// Returns the number of this thread's frames. `leave_to` leaves all frames after the first `depth`.
size_t depth();
void leave_to(size_t depth);

// Returns this thread's scope. The pointer is valid until the thread enters or leaves a scope, or calls this function.
const PolicyScope* scope_in_force();
ScopePointer share_scope_in_force();
// Returns the id of this thread's scope. The scope without a policy has an id as well.
uint64_t id_in_force();

// Stores a scope until the process ends. Returns its id, or 0 without a policy. Compiled code passes ids to `kept()`.
uint64_t keep(const ScopePointer& scope);
ScopePointer kept(uint64_t id);

// Gives all scopes new ids after a change of the kernels, so that earlier compiled code does not run again.
void renew_ids();

// Sets the policy of the process, after its kernels are added. `nullptr` removes the policy.
void use(PolicyPointer policy);
PolicyPointer used();

// The rule of a call in this thread, and its source. `spec` is `nullptr` for a built-in rule. Otherwise the pointer is
// valid as long as the active scope exists.
struct Found {
  Rule rule;
  Layer layer = Layer::built_in;
  const RuleSpec* spec = nullptr;
};
Found find_rule(Slot slot, DeviceIndex device);

// Hooks that a kernel calls in the thread of the call, before it casts. `slot` identifies the called overload.
struct RuleObserver {
  void (*follow)(Slot slot, const Found& found);
  // Returns whether PyTorch has reported the running call of the overload to the observer.
  bool (*has_begun)(Slot slot);
};

// Sets the observer, which must exist until the end of the process. `nullptr` removes the current observer.
void set_rule_observer(const RuleObserver* observer);
// Returns whether an observer is set, and PyTorch has not reported the running call of the overload to the observer.
bool is_unobserved(Slot slot);

}  // namespace polycast::autocast
