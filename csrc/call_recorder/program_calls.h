// The calls that a program makes itself, stored with their inputs, so that they can be repeated.
//
// Note [Which calls are the program's?]
// PyTorch reports every call through its dispatcher, including calls that other calls make. A call is the program's if
// no other call made it. Such a call comes from code such as forward or an optimizer's step, or from an autograd node.
// Calls with wrapped tensors (subclasses, functorch) are not stored, but calls with plain tensors within them are.
//
// An input shares the memory of the program's tensor, without its autograd graph. Outputs are not stored: calls that
// read them store them as inputs. On request outputs are copied. Until a write, equal keys mean equal values.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autocast/policy_scope.h"

namespace polycast::call_recorder {

// Returns the memory of a tensor, or the tensor itself if it is not strided.
c10::intrusive_ptr_target* memory_of(const at::Tensor& tensor);
using WeakMemory = c10::weak_intrusive_ptr<c10::intrusive_ptr_target>;

// The address of `memory_of` a tensor, and a hash of the tensor's dtype and layout.
using Key = std::pair<uint64_t, uint64_t>;

Key key_of(const at::Tensor& tensor);

struct Input {
  explicit Input(const at::Tensor& given);
  bool is_as_given() const;

  at::Tensor tensor;
  Key key;
  uint32_t version;  // Inference tensors have no version, so `StepCalls` in Python compares their writes.
  size_t bytes;      // The size of the memory, which FSDP frees without a new version.
};

struct Output {
  Key key;
  WeakMemory memory;  // This reference reserves the address in the key.
  at::ScalarType dtype;
  bool is_written;       // The output is an argument that the call wrote to.
  bool is_view = false;  // The output shares the memory of an input, and was not written.
  bool is_finite = true;
  at::Tensor flag;  // The result of `is_finite` on an accelerator, until `any_non_finite` reads it.
  at::Tensor copy;  // Defined if copies were requested, except for views, wrapped tensors and results of `aten::empty`.
};

// Returns whether a tensor is finite. On an accelerator, returns true without a device sync, and sets `flag` to a
// tensor with the result. Returns true for a tensor that the function cannot check, such as a quantized tensor.
bool is_finite(const at::Tensor& tensor, at::Tensor& flag);

constexpr uint64_t no_node = UINT64_MAX;

struct ProgramCall {
  c10::OperatorHandle op;
  int64_t module;  // See `current_module`.
  bool in_step;    // An optimizer's step made the call.
  int64_t task;    // The number of the backward pass that made the call, or -1.
  // In forward, the call's autograd nodes have this number or higher ones. In backward, this is the number of the node
  // that made the call. It is `no_node` if the node accumulates a gradient or if all nodes have run.
  uint64_t node;
  uint64_t thread;       // The thread that numbers the node, because each thread has its own numbers.
  std::string function;  // In backward, the name of the node if a `torch.autograd.Function` made it.
  const void* weight;    // In backward, the weight whose gradient the node accumulates.
  uint64_t first, last;  // The calls within this one that autocast intercepted have numbers in [first, last).
  autocast::ScopePointer scope;
  autocast::Region region;
  std::vector<c10::IValue> arguments;
  std::vector<Input> inputs;  // The tensors among the arguments.
  std::vector<Output> outputs;

  // Returns whether an argument is a non-finite number, with which the program requests a non-finite result.
  bool has_non_finite_number() const;
  // Returns the argument with which a scaler skips an optimizer's step, or an undefined tensor.
  at::Tensor found_inf() const;
  // Repeats the call with other inputs and returns its outputs. A policy, if any, overrides all others. With `is_wide`,
  // autocast is off, and float32 replaces each lower precision dtype among the arguments.
  std::vector<at::Tensor> run(
      const std::vector<at::Tensor>& with, const autocast::PolicyPointer& policy, bool is_wide) const;
};

// A function that is called before each call that may end a training step. Such a call is a scaler's update, or a write
// to a weight outside of backward and of an optimizer's step. The update's `found_inf` indicates a skipped step.
using OnWrite = std::function<void(const at::Tensor& found_inf)>;

// Starts to store the program's calls, until the recording stops. `copies` requests copies of their outputs.
void start_holding(const std::vector<at::Tensor>& weights, OnWrite on_write, bool copies);
// Pauses or resumes the storing of calls, because calls of the debug tool itself are not the program's.
void pause_holding(bool is_paused);
void set_step(bool is_step);

// Returns whether any stored call from the index `first` on has a non-finite output. Syncs each device at most once.
bool any_non_finite(size_t first);
size_t held_count();
std::vector<std::shared_ptr<ProgramCall>> held_calls();
// Drops the stored calls, and the recorded calls that `take()` has not returned.
void drop_calls();

// A call of the program while it runs.
struct Running {
  Running() {
    exists = true;
  }
  ~Running() {
    exists = false;
  }

  static inline thread_local bool exists = false;  // A call within a stored call is not the program's.
  std::shared_ptr<ProgramCall> call;
  std::vector<at::Tensor> written;
};

// The recorder calls these functions. `begin_program_call` returns `nullptr` for a call that is not stored.
std::unique_ptr<Running> begin_program_call(const at::RecordFunction& function, const c10::OperatorHandle& op);
void end_program_call(Running& running, const at::RecordFunction& function);
void stop_holding();

}  // namespace polycast::call_recorder
