#include "autocast/policy_scope.h"

#include <Python.h>

#include <ATen/autocast_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "autocast/registry.h"
#include "process_state.h"

namespace polycast::autocast {

namespace {

using Parts = std::vector<PolicyScope::Part>;
using Key = std::vector<std::pair<Layer, const Policy*>>;  // The scope with this key owns the policies.

struct Shared {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<PolicyScope>> scopes;
  std::unordered_map<uint64_t, ScopePointer> kept;
  PolicyPointer of_process;
};

Shared& shared() {
  return process_state<Shared>();
}

// A thread that has an older version replaces its scopes: see `follow_version`.
std::atomic<uint64_t> version{0};
std::atomic<uint64_t> next_id{1};
std::atomic<uint64_t> id_of_none{0};

// The policy of the process in an earlier scope that a thread enters. It replaces `instead_of`, the policy of the
// process at the time of the entry, but not a policy that `use()` sets later.
struct EarlierProcess {
  PolicyPointer policy;
  PolicyPointer instead_of;
};

// A frame of a thread's stack: a region, a policy or an earlier scope that the thread is in.
struct Frame {
  const void* owner;   // The object that entered the frame. A frame of compiled code or of a repeated call has none.
  ScopePointer scope;  // The scope that applies within the frame.
  std::optional<EarlierProcess> earlier;
  std::optional<Region> before;
};

struct Thread {
  std::vector<Frame> frames;
  ScopePointer outermost;  // The scope that applies outside of all frames.
};

thread_local Thread thread;
// The state that each call of an op reads. `Thread`, which needs initialization at run time, would be slower to read.
struct InForce {
  const PolicyScope* scope;
  uint64_t version;
};
thread_local InForce in_force{nullptr, 0};

Region region_of(c10::DeviceType device) {
  return {
      device,
      at::autocast::get_autocast_dtype(device),
      at::autocast::is_autocast_enabled(device),
      at::autocast::is_autocast_cache_enabled()};
}

void set_region(const Region& region) {
  at::autocast::set_autocast_enabled(region.device, region.enabled);
  if (region.lower_precision) {
    at::autocast::set_autocast_dtype(region.device, *region.lower_precision);
  }
  if (region.cache_enabled) {
    at::autocast::set_autocast_cache_enabled(*region.cache_enabled);
  }
}

// Returns the scope of these parts. The caller holds the lock.
ScopePointer find_or_make(Parts parts) {
  if (parts.empty()) {
    return nullptr;
  }
  Key key;
  for (const PolicyScope::Part& part : parts) {
    key.emplace_back(part.layer, part.policy.get());
  }
  auto& scopes = shared().scopes;
  if (ScopePointer scope = scopes[key].lock()) {
    return scope;
  }
  for (auto known = scopes.begin(); known != scopes.end();) {
    known = known->second.expired() ? scopes.erase(known) : std::next(known);
  }
  const ScopePointer scope = std::make_shared<PolicyScope>(std::move(parts));
  scopes[std::move(key)] = scope;
  return scope;
}

// Returns the scope after a policy is entered within the scope `outer`.
ScopePointer scope_within(const ScopePointer& outer, Layer layer, const PolicyPointer& policy) {
  const auto is_same = [&](const PolicyScope::Part& part) { return part.layer == layer && part.policy == policy; };
  Parts parts = outer ? outer->parts : Parts{};
  // If the layer already has the policy, only the new occurrence remains.
  parts.erase(std::remove_if(parts.begin(), parts.end(), is_same), parts.end());
  const auto place =
      std::find_if(parts.begin(), parts.end(), [&](const PolicyScope::Part& part) { return part.layer >= layer; });
  parts.insert(place, {layer, policy});
  const std::lock_guard<std::mutex> lock(shared().mutex);
  return find_or_make(std::move(parts));
}

PolicyPointer process_of(const ScopePointer& scope) {
  const bool has_one = scope && scope->parts.back().layer == Layer::process;
  return has_one ? scope->parts.back().policy : nullptr;
}

// Returns `scope` with `policy` as its policy of the process. `nullptr` removes that policy. The caller holds the lock.
ScopePointer with_process(const ScopePointer& scope, const PolicyPointer& policy) {
  Parts parts = scope ? scope->parts : Parts{};
  if (!parts.empty() && parts.back().layer == Layer::process) {
    parts.pop_back();
  }
  if (policy) {
    parts.push_back({Layer::process, policy});
  }
  return find_or_make(std::move(parts));
}

const ScopePointer& innermost() {
  return thread.frames.empty() ? thread.outermost : thread.frames.back().scope;
}

// Replaces the scopes of this thread after a change of the process's policy or of the ids.
void follow_version() {
  Shared& known = shared();
  const std::lock_guard<std::mutex> lock(known.mutex);
  thread.outermost = with_process(nullptr, known.of_process);
  for (Frame& frame : thread.frames) {
    const bool is_earlier = frame.earlier && frame.earlier->instead_of == known.of_process;
    frame.scope = with_process(frame.scope, is_earlier ? frame.earlier->policy : known.of_process);
  }
  in_force = {innermost().get(), version};
}

// Clears PyTorch's cache without the GIL, as PyTorch does. With the GIL, this thread could deadlock with another one
// that clears the cache and needs the GIL to free a tensor.
void clear_cache() {
  PyThreadState* const held = PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
  at::autocast::clear_cache();
  if (held != nullptr) {
    PyEval_RestoreThread(held);
  }
}

void pop() {
  const Frame frame = std::move(thread.frames.back());
  thread.frames.pop_back();
  if (frame.before) {
    if (at::autocast::decrement_nesting() == 0) {
      clear_cache();
    }
    set_region(*frame.before);
  }
  in_force.scope = innermost().get();
}

}  // namespace

const char* name_of(Layer layer) {
  constexpr std::array names{"over all", "module", "region", "process", "policy.yaml"};
  return names[static_cast<size_t>(layer)];
}

PolicyScope::PolicyScope(std::vector<Part> parts) : id(next_id++), parts(std::move(parts)) {}

void enter(const ScopeGuard& guard, const void* owner) {
  Frame frame{owner, guard.scope ? *guard.scope : share_scope_in_force(), std::nullopt, std::nullopt};
  if (guard.scope) {
    frame.earlier = {process_of(frame.scope), used()};
  } else if (!thread.frames.empty()) {
    frame.earlier = thread.frames.back().earlier;
  }
  if (guard.policy) {
    add_kernels(*guard.policy);
    frame.scope = scope_within(frame.scope, guard.layer, guard.policy);
  }
  if (guard.region) {
    frame.before = region_of(guard.region->device);
    at::autocast::increment_nesting();
    set_region(*guard.region);
  }
  thread.frames.push_back(std::move(frame));
  in_force.scope = innermost().get();
}

void leave(const void* owner) {
  std::vector<Frame>& frames = thread.frames;
  const auto is_its = [&](const Frame& frame) { return frame.owner == owner; };
  const auto latest = std::find_if(frames.rbegin(), frames.rend(), is_its);
  if (latest != frames.rend()) {
    leave_to(static_cast<size_t>(frames.rend() - latest) - 1);
  }
}

size_t depth() {
  return thread.frames.size();
}

void leave_to(size_t depth) {
  while (thread.frames.size() > depth) {
    pop();
  }
}

const PolicyScope* scope_in_force() {
  if (in_force.version != version.load(std::memory_order_acquire)) {
    follow_version();
  }
  return in_force.scope;
}

ScopePointer share_scope_in_force() {
  scope_in_force();
  return innermost();
}

uint64_t id_in_force() {
  const PolicyScope* const scope = scope_in_force();
  return scope == nullptr ? id_of_none.load() : scope->id;
}

uint64_t keep(const ScopePointer& scope) {
  if (scope == nullptr) {
    return 0;
  }
  const std::lock_guard<std::mutex> lock(shared().mutex);
  shared().kept.emplace(scope->id, scope);
  return scope->id;
}

ScopePointer kept(uint64_t id) {
  const std::lock_guard<std::mutex> lock(shared().mutex);
  return id == 0 ? nullptr : shared().kept.at(id);
}

void renew_ids() {
  const std::lock_guard<std::mutex> lock(shared().mutex);
  shared().scopes.clear();
  id_of_none = next_id++;
  ++version;
}

void use(PolicyPointer policy) {
  if (policy) {
    add_kernels(*policy);
  }
  const std::lock_guard<std::mutex> lock(shared().mutex);
  shared().of_process.swap(policy);
  ++version;
}

PolicyPointer used() {
  const std::lock_guard<std::mutex> lock(shared().mutex);
  return shared().of_process;
}

Found find_rule(Slot slot, DeviceIndex device) {
  if (const PolicyScope* const scope = scope_in_force()) {
    for (const PolicyScope::Part& part : scope->parts) {
      if (const RuleSpec* const spec = part.policy->find(slot, device)) {
        return {spec->rule, part.layer, spec};
      }
    }
  }
  return {built_in_rule(slot, device)};
}

}  // namespace polycast::autocast
