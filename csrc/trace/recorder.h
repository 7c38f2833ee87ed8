// The calls of operators as autocasting meets them, recorded while somebody asks for it.
//
// Note [Which calls autocasting meets]
// torch reports each call that goes through its dispatcher, and each that is made within it. Autocasting meets one when
// the autocast key of its tensors is on. Where a kernel takes it, the same operator is called again below, with that
// key off and with its arguments cast: the arrival, from which the casts are told. An operator that is made of others
// is not recorded itself, unless a kernel takes it; of what a device's own kernel calls, only that is which one takes.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autocast/rules.h"

namespace polycast::trace {

// An argument that arrived in another type than it was given in.
struct Cast {
  at::ScalarType given;
  at::ScalarType to;
  int64_t elements;
  const void* tensor;  // that was given: what Tensor._cdata is in Python
  bool reused;         // from the cast cache, or of an argument that was cast for this very call
};

struct Call {
  uint64_t order;    // in which calls began, in the whole process
  std::string name;  // "aten::conv1d.padding"
  c10::DeviceType device;
  bool taken;                          // by a kernel of autocasting, polycast's or torch's
  std::optional<autocast::Rule> rule;  // that polycast's kernel followed, as the kernel reports it
  std::string origin;                  // of the rule: the policy and the place in it; empty for the compiled one
  int64_t place;                       // what set_place said last in this thread
  bool backward;                       // whether autograd's engine made the call
  uint64_t node;                       // the first number that an autograd node of the call can have
  std::vector<at::ScalarType> given;
  std::vector<at::ScalarType> arrived;  // empty where the call did not arrive below by its own name
  std::vector<at::ScalarType> returned;
  std::vector<Cast> casts;
  std::string source;
};

// Records the calls of this thread, and of those that torch runs its backward in. One recording runs at a time, and any
// thread may stop it. `recorder` is who asks, for the error where another one runs. Without `source` calls have none.
// It is called as a call begins, and must not throw: torch swallows what a recorder throws, and the call is lost. Once
// `limit` calls are held no more begin, until they are taken.
void start(std::string recorder, std::function<std::string()> source, size_t limit);
void stop();

// Returns what has ended since the last time, in the order in which it began.
std::vector<Call> take();

// Where calls of this thread are made from now on, as the caller numbers it.
void set_place(int64_t place);

// The order of the innermost call that this thread is in.
std::optional<uint64_t> current();

}  // namespace polycast::trace
