// A recorder of the calls that autocast intercepts.
//
// Note [Which calls are recorded?]
// PyTorch reports every call through its dispatcher, including calls that other calls make. We record only the calls
// that autocast intercepts: the autocast key of their tensors is on. An autocast kernel calls the same operator again
// with that key off. This second call, the redispatch, shows the dtypes in which the op computes. A composite operator,
// or one with an autocast kernel, is recorded in addition to its parts only if it is redispatched. Within a device's
// own kernel, only calls with an autocast kernel are recorded, because the others are details of that kernel.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "autocast/rules.h"

namespace polycast::call_recorder {

// The dtype, the number of elements and the address of a tensor. Python has the address as `Tensor._cdata`.
using Argument = std::tuple<at::ScalarType, int64_t, uintptr_t>;

struct Call {
  uint64_t order;    // Calls of the process are numbered in the order in which they begin.
  std::string name;  // An overload, such as "aten::conv1d.padding".
  c10::DeviceType device;
  autocast::Rule rule;  // A call with PyTorch's own autocast kernel has the category `stock`.
  std::string origin;   // The layer and the source of a policy's rule, otherwise empty.
  int64_t module;       // See `current_module`.
  bool backward;        // Autograd's engine makes the call.
  std::vector<Argument> given;
  std::vector<at::ScalarType> arrived;  // The dtypes of the redispatch, if there is one.
  std::vector<at::ScalarType> returned;
  std::vector<uintptr_t> made;  // The addresses of the arguments that were cast for the call.
  std::string source;           // The program's line, if the recording was started with a function for it.

  // Returns whether an autocast kernel, polycast's or PyTorch's, applies to the call.
  bool is_taken() const {
    return rule.category != autocast::Category::unlisted;
  }
};

// Starts to record the calls of this thread, and of the threads in which PyTorch runs its backward. One recording runs
// at a time, and any thread may stop it. The error of a second recording contains the `recorder` of the first.
// `source`, if any, returns the line of a new call. It must not throw: PyTorch swallows the exceptions of a recorder,
// and the call would be lost. After `limit` calls, no more are recorded until `take()`, except within a running call.
void start(std::string recorder, std::function<std::string()> source, size_t limit);
void stop();

// Returns the calls that ended since the last `take()`, in the order in which they began.
std::vector<Call> take();

// The number of the module that makes the calls of this thread. Python numbers the modules.
inline thread_local int64_t current_module = -1;

// The number that the next call will have.
inline std::atomic<uint64_t> next_order{0};

}  // namespace polycast::call_recorder
