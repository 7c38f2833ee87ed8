// A recorder of the calls that autocast intercepts.
//
// Note [Which calls are recorded]
// PyTorch reports each call that goes through its dispatcher, and each call within it. Autocast intercepts a call if
// the autocast key of its tensors is on. An autocast kernel calls the same operator again with that key off. That
// second call is the arrival: its dtypes differ from those of the first call if an argument was cast. An operator that
// is composed of others is recorded only if it has an autocast kernel. Of the calls within a device's own kernel, only
// those that have an autocast kernel are recorded.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autocast/rules.h"

namespace polycast::call_recorder {

// A cast of an argument.
struct Cast {
  at::ScalarType given;
  at::ScalarType to;
  int64_t elements;
  const void* tensor;  // Tensor._cdata of the argument
  bool reused;         // the cast cache had it, or another argument of this call is the same tensor
};

struct Call {
  uint64_t order;    // numbers the calls of the process in the order in which they began
  std::string name;  // "aten::conv1d.padding"
  c10::DeviceType device;
  bool taken;                          // by an autocast kernel, polycast's or torch's
  std::optional<autocast::Rule> rule;  // reported by polycast's kernel as it follows it
  std::string origin;                  // the policy that has the rule, and where; empty for the built-in policy
  int64_t module;                      // set last by set_module in this thread
  bool backward;                       // autograd's engine made the call
  std::vector<at::ScalarType> given;
  std::vector<at::ScalarType> arrived;  // empty where the call did not arrive below by its own name
  std::vector<at::ScalarType> returned;
  std::vector<Cast> casts;
  std::string source;
};

// Records the calls of this thread, and of the threads that torch runs its backward in. One recording runs at a time,
// and any thread may stop it. `recorder` names it in the error that a second one raises. `source` is called as a call
// begins and must not throw, since torch swallows what a recorder throws, and the call is lost. It may be empty. Once
// `limit` calls are held, no more are recorded until they are taken.
void start(std::string recorder, std::function<std::string()> source, size_t limit);
void stop();

// Returns the calls that have ended since the last time, in the order in which they began.
std::vector<Call> take();

// Sets the module that later calls of this thread are in. The caller numbers modules.
void set_module(int64_t module);
int64_t current_module();

// Returns the number that the next call will have.
uint64_t next_order();

}  // namespace polycast::call_recorder
