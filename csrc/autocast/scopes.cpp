#include "autocast/scopes.h"

#include <ATen/autocast_mode.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "autocast/registry.h"

namespace polycast::autocast {

namespace {

using Parts = std::vector<Scope::Part>;
using Key = std::vector<std::pair<Layer, const Policy*>>;  // which keeps no policy

constexpr int16_t unnumbered = -1;

struct Shared {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<const Scope>> scopes;
  size_t room = 64;  // in which freed scopes may be left
  std::unordered_map<uint64_t, ScopePointer> kept;
  PolicyPointer of_process;
  std::atomic<uint64_t> version{0};  // of what the process uses
  std::atomic<uint64_t> next_id{1};
  // The carrier, set once, before any scope is entered.
  c10::DeviceType carrier = c10::DeviceType::CPU;
  at::ScalarType shown_by_none = at::ScalarType::Undefined;
  at::ScalarType shown_unnumbered = at::ScalarType::Undefined;
  std::vector<at::ScalarType> numbers;
  size_t taken = 0;
};

Shared& shared() {
  // Never destroyed: other threads may run to the very end. A forked child gets the lock as its parent had it, so
  // whoever forks holds it meanwhile.
  static Shared* const instance = [] {
    auto* const made = new Shared;
    pthread_atfork([] { shared().mutex.lock(); }, [] { shared().mutex.unlock(); }, [] { shared().mutex.unlock(); });
    return made;
  }();
  return *instance;
}

// What a thread entered, and what held before.
struct Entry {
  ContextPointer context;  // nullptr in compiled code
  ScopePointer scope;      // that holds in it
  std::optional<Region> before;
};

struct Thread {
  std::vector<Entry> entries;
  std::vector<ContextPointer> left_with_another;  // and not by themselves yet
  PolicyPointer of_process;                       // as of the version
  uint64_t version = 0;
  bool shows = false;  // see Note [The number of a scope]

  // A thread that ends is in nothing any more.
  ~Thread() {
    for (const Entry& entry : entries) {
      if (entry.context) {
        --entry.context->entries;
      }
    }
  }
};

thread_local Thread thread;

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

void show(const Scope* scope) {
  if (!thread.shows) {
    return;
  }
  const Shared& known = shared();
  at::ScalarType dtype = known.shown_by_none;
  if (scope != nullptr) {
    const int16_t number = scope->number;
    dtype = number == unnumbered ? known.shown_unnumbered : known.numbers[number];
  }
  at::autocast::set_autocast_enabled(known.carrier, scope != nullptr);
  at::autocast::set_autocast_dtype(known.carrier, dtype);
}

void push(ContextPointer context, ScopePointer scope, const std::optional<Region>& region) {
  Entry entry{std::move(context), std::move(scope), std::nullopt};
  const bool differs = entry.scope != scope_in_force();
  if (region) {
    entry.before = region_of(region->device);
    at::autocast::increment_nesting();
    set_region(*region);
  }
  thread.entries.push_back(std::move(entry));
  if (differs) {
    show(scope_in_force().get());
  }
}

void pop() {
  const Entry entry = std::move(thread.entries.back());
  thread.entries.pop_back();
  if (entry.before) {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    set_region(*entry.before);
  }
  if (entry.scope != scope_in_force()) {
    show(scope_in_force().get());
  }
}

ScopePointer scope_of(const Context& context, const ScopePointer& outer) {
  if (context.scope) {
    return *context.scope;
  }
  if (!context.policy) {
    return outer;
  }
  add_kernels(*context.policy);
  return scope_within(outer, context.layer, context.policy);
}

// Takes an entry from under others, which hold without it from then on.
void take_out(size_t place) {
  std::vector<Entry>& entries = thread.entries;
  const ScopePointer shown = scope_in_force();
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(place));
  for (; place < entries.size(); ++place) {
    if (entries[place].context) {
      entries[place].scope = scope_of(*entries[place].context, place == 0 ? ScopePointer() : entries[place - 1].scope);
    }
  }
  if (scope_in_force() != shown) {
    show(scope_in_force().get());
  }
}

const Policy* policy_of_process() {
  const uint64_t version = shared().version.load(std::memory_order_acquire);
  if (thread.version != version) {
    const std::lock_guard<std::mutex> lock(shared().mutex);
    thread.of_process = shared().of_process;
    thread.version = shared().version;
  }
  return thread.of_process.get();
}

}  // namespace

const char* name_of(Layer layer) {
  switch (layer) {
    case Layer::over:
      return "over all";
    case Layer::module:
      return "module";
    case Layer::region:
      return "region";
    case Layer::process:
      return "process";
    default:
      return "policy.yaml";
  }
}

Scope::Scope(std::vector<Part> parts) : id(shared().next_id++), parts(std::move(parts)) {}

ScopePointer scope_within(const ScopePointer& outer, Layer layer, const PolicyPointer& policy) {
  const auto is_same = [&](const Scope::Part& part) { return part.layer == layer && part.policy == policy; };
  Parts parts = outer ? outer->parts : Parts{};
  // Farther out in its layer the same policy says nothing more.
  parts.erase(std::remove_if(parts.begin(), parts.end(), is_same), parts.end());
  const auto place =
      std::find_if(parts.begin(), parts.end(), [&](const Scope::Part& part) { return part.layer >= layer; });
  parts.insert(place, {layer, policy});
  Key key;
  for (const Scope::Part& part : parts) {
    key.emplace_back(part.layer, part.policy.get());
  }
  const std::lock_guard<std::mutex> lock(shared().mutex);
  auto& scopes = shared().scopes;
  if (scopes.size() >= shared().room) {
    for (auto known = scopes.begin(); known != scopes.end();) {
      known = known->second.expired() ? scopes.erase(known) : std::next(known);
    }
    shared().room = 2 * scopes.size() + 64;
  }
  std::weak_ptr<const Scope>& known = scopes[std::move(key)];
  ScopePointer scope = known.lock();
  if (!scope) {
    known = scope = std::make_shared<const Scope>(std::move(parts));
  }
  return scope;
}

void enter(const ContextPointer& context) {
  push(context, scope_of(*context, scope_in_force()), context->region);
  ++context->entries;
}

bool leave(const ContextPointer& context) {
  std::vector<Entry>& entries = thread.entries;
  const auto is_its = [&](const Entry& entry) { return entry.context == context; };
  const auto latest = std::find_if(entries.rbegin(), entries.rend(), is_its);
  if (latest == entries.rend()) {
    auto& left = thread.left_with_another;
    const auto known = std::find(left.begin(), left.end(), context);
    if (known == left.end()) {
      return false;
    }
    left.erase(known);
    return true;
  }
  --context->entries;
  const auto place = static_cast<size_t>(entries.rend() - latest) - 1;
  if (!context->region && place + 1 < entries.size()) {
    take_out(place);
    return true;
  }
  while (entries.size() > place + 1) {
    if (const ContextPointer& other = entries.back().context) {
      --other->entries;
      thread.left_with_another.push_back(other);
    }
    pop();
  }
  pop();
  return true;
}

void enter(const ScopePointer& scope, std::optional<Region> region) {
  push(nullptr, scope, region);
}

void leave_latest() {
  TORCH_CHECK(!thread.entries.empty(), "this thread is in no region with a policy");
  pop();
}

size_t depth() {
  return thread.entries.size();
}

void leave_to(size_t depth) {
  while (thread.entries.size() > depth) {
    pop();
  }
}

const ScopePointer& scope_in_force() {
  static const ScopePointer none;
  return thread.entries.empty() ? none : thread.entries.back().scope;
}

void keep(const ScopePointer& scope) {
  const std::lock_guard<std::mutex> lock(shared().mutex);
  shared().kept.emplace(scope->id, scope);
}

ScopePointer kept(uint64_t id) {
  const std::lock_guard<std::mutex> lock(shared().mutex);
  return shared().kept.at(id);
}

void set_carrier(c10::DeviceType device, std::vector<at::ScalarType> dtypes) {
  Shared& known = shared();
  known.carrier = device;
  known.shown_by_none = at::autocast::get_autocast_dtype(device);
  known.shown_unnumbered = dtypes.front();
  known.numbers.assign(dtypes.begin() + 1, dtypes.end());
}

void show_scopes() {
  if (!thread.shows) {
    thread.shows = true;
    show(scope_in_force().get());
  }
}

bool number_scope() {
  show_scopes();
  const ScopePointer& scope = scope_in_force();
  if (!scope) {
    return true;
  }
  {
    Shared& known = shared();
    const std::lock_guard<std::mutex> lock(known.mutex);
    if (scope->number == unnumbered) {
      if (known.taken == known.numbers.size()) {
        return false;
      }
      known.kept.emplace(scope->id, scope);
      scope->number = static_cast<int16_t>(known.taken++);
    }
  }
  show(scope.get());
  return true;
}

void use(PolicyPointer policy) {
  const std::lock_guard<std::mutex> lock(shared().mutex);
  shared().of_process.swap(policy);
  ++shared().version;
}

PolicyPointer used() {
  const std::lock_guard<std::mutex> lock(shared().mutex);
  return shared().of_process;
}

Found find_rule(Slot slot, DeviceIndex device) {
  if (const Scope* const scope = scope_in_force().get()) {
    for (const Scope::Part& part : scope->parts) {
      if (const Policy::PlacedRule* const placed = part.policy->find(slot, device)) {
        return {placed->rule, part.layer, part.policy.get(), placed};
      }
    }
  }
  if (const Policy* const policy = policy_of_process()) {
    if (const Policy::PlacedRule* const placed = policy->find(slot, device)) {
      return {placed->rule, Layer::process, policy, placed};
    }
  }
  return {built_in_rule(slot, device)};
}

std::string message_of(const Found& found, Slot slot, DeviceIndex device) {
  return found.policy == nullptr ? built_in_message(slot, device) : found.policy->message(*found.placed);
}

std::vector<ScopePointer> live_scopes() {
  std::vector<ScopePointer> live;
  const std::lock_guard<std::mutex> lock(shared().mutex);
  for (const auto& [key, scope] : shared().scopes) {
    if (ScopePointer alive = scope.lock()) {
      live.push_back(std::move(alive));
    }
  }
  return live;
}

}  // namespace polycast::autocast
