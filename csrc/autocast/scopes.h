// Where policies hold: in the process, in regions and in modules; entered and left by each thread for itself.
//
// Note [What a scope is]
// A scope is the list of the policies that hold over the process's, the one that decides first at the front. Each
// thread keeps the scopes that it has entered in a stack of its own. Nothing is locked on the way in but the table that
// finds the scope of an equal list, and a scope is freed once nobody is in it.
//
// Note [The number of a scope]
// torch.compile guards the autocast state of every device. So a scope shows itself on a device that nobody has, the
// carrier: while a thread is in a scope the carrier is enabled, and its dtype is the number of the scope. A thread does
// so from the first time that it calls compiled code; until then it changes no autocast state. There are some forty
// dtypes. Therefore a scope gets a number only when torch.compile starts to compile in it, and keeps it to
// the end of the process. A scope without one shows a dtype that is no number, which no compiled code was guarded by:
// torch.compile then starts to compile, and the scope gets a number before the guards are taken. No op is changed by
// the carrier, since no tensor has its key. What is entered inside compiled code is held by its id as a constant.
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

// Who says a rule, the one that decides first at the front.
enum class Layer : uint8_t { over, module, region, process, built_in };
const char* name_of(Layer layer);

// See Note [What a scope is].
class Scope {
 public:
  struct Part {
    Layer layer;
    PolicyPointer policy;
  };

  explicit Scope(std::vector<Part> parts);

  const uint64_t id;  // of no other scope, ever
  const std::vector<Part> parts;
  mutable std::atomic<int16_t> number{-1};  // see Note [The number of a scope]
};

using ScopePointer = std::shared_ptr<const Scope>;  // nullptr is the scope of no policy

// Returns the scope of a policy that is entered in another scope: it decides over those of its layer.
ScopePointer scope_within(const ScopePointer& outer, Layer layer, const PolicyPointer& policy);

// What an autocast region says of its device.
struct Region {
  c10::DeviceType device;
  std::optional<at::ScalarType> lower_precision;  // that which holds, where there is none
  bool enabled;
  std::optional<bool> cache_enabled;
};

// What a with statement enters: a region, a policy, both, or a scope that was held before. Any number of threads may
// enter it, again while they are in it.
struct Context {
  std::optional<Region> region;
  Layer layer = Layer::region;
  PolicyPointer policy;
  std::optional<ScopePointer> scope;
  mutable std::atomic<int64_t> entries{0};  // that were not left
};

using ContextPointer = std::shared_ptr<const Context>;

void enter(const ContextPointer& context);
// Leaves the latest entry of this thread. A region takes with it what was entered in it and not left; a module does
// not, since a generator that was started in it may run on. Returns false where this thread has no such entry.
bool leave(const ContextPointer& context);

// For compiled code, which nests as its text does.
void enter(const ScopePointer& scope, std::optional<Region> region);
void leave_latest();
// How much this thread has entered and not left; leave_to leaves what was entered since it was that much.
size_t depth();
void leave_to(size_t depth);

// The scope that this thread is in.
const ScopePointer& scope_in_force();

// Keeps a scope until the end of the process, so that compiled code can name it by its id.
void keep(const ScopePointer& scope);
ScopePointer kept(uint64_t id);

// See Note [The number of a scope]. The first dtype is shown by scopes without a number.
void set_carrier(c10::DeviceType device, std::vector<at::ScalarType> dtypes);
// Has this thread show its scopes from now on.
void show_scopes();
// Gives the scope of this thread a number, and shows it. Returns false where all are taken.
bool number_scope();

// Makes a policy that of the process; nullptr for none.
void use(PolicyPointer policy);
PolicyPointer used();

// The rule that this thread follows, and who says it. The policy is nullptr where the rule is built in, and lives until
// this thread enters, leaves or finds something else.
struct Found {
  Rule rule;
  Layer layer = Layer::built_in;
  const Policy* policy = nullptr;
  const Policy::PlacedRule* placed = nullptr;
};
Found find_rule(Slot slot, DeviceIndex device);
// The message of a banned call.
std::string message_of(const Found& found, Slot slot, DeviceIndex device);

// The scopes that somebody is in, or holds.
std::vector<ScopePointer> live_scopes();

}  // namespace polycast::autocast
