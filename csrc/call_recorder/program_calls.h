// The calls that a program makes itself, held with their inputs, so that they can be made again.
//
// Note [Which calls are the program's?]
// PyTorch reports each call that goes through its dispatcher, and each call within it. A call that no other call made
// is the program's: the program wrote it in forward or in a step, or an autograd node made it in backward. Calls of
// wrapped tensors (subclasses, functorch) are not held. The calls that they make with plain tensors are.
//
// A held input shares its memory with the program's tensor, and is detached from the graph. Outputs are not held: they
// are the inputs of later calls, which find them by their memory. Copies of them are made on request.
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

// The memory that a tensor shows, and which elements of it in which dtype. Tensors with equal keys show equal values.
using Key = std::pair<uint64_t, uint64_t>;

Key key_of(const at::Tensor& tensor);

struct Input {
  explicit Input(const at::Tensor& given);
  bool is_as_given() const;

  at::Tensor tensor;
  Key key;
  uint32_t version;
  size_t bytes;  // of its memory, which FSDP frees
};

struct Output {
  Key key;
  at::ScalarType dtype;
  bool is_written;       // by a call that writes into an argument
  bool is_view = false;  // of an input
  bool is_finite = true;
  at::Tensor flag;  // on accelerators, until any_non_finite reads it
  at::Tensor copy;  // on request, unless it is a view
  // These keep the address in the key from being used again.
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> memory;
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> tensor;
};

// Returns whether a tensor is finite. For a tensor of an accelerator it returns true, and sets the flag that tells.
bool is_finite(const at::Tensor& tensor, at::Tensor& flag);

constexpr uint64_t no_node = UINT64_MAX;

struct ProgramCall {
  c10::OperatorHandle op;
  int64_t module;  // see set_module
  bool in_step;    // of an optimizer
  int64_t task;    // the number of the backward that it is a part of, -1 if it is of none
  uint64_t node;   // the call's autograd nodes have this number or higher ones; in backward, the number of its node,
                   // or no_node, as for a node that adds up a gradient, and for calls when all nodes have run
  std::string function;  // in backward: the name of a torch.autograd.Function whose backward made the call
  const void* weight;    // in backward: the weight whose gradient its node adds up
  uint64_t first, last;  // numbers of the calls that autocast intercepted within it: from first up to last
  autocast::ScopePointer scope;
  autocast::Region region;
  std::vector<c10::IValue> arguments;
  std::vector<Input> inputs;  // the tensors among the arguments
  std::vector<Output> outputs;

  // Whether the program asks for a non-finite result by a number.
  bool has_non_finite_number() const;
  // The tensor that tells an optimizer's step whether a scaler skips it.
  std::optional<at::Tensor> found_inf() const;
  // Makes the call again with other inputs, under a further policy. A wide call is made with autocast off, and float32
  // takes the place of a lower dtype among its arguments. Returns its outputs.
  std::vector<at::Tensor> run(
      const std::vector<at::Tensor>& with, const autocast::PolicyPointer& policy, bool is_wide) const;
};

// What may end a step: it is called before a call outside of backward and of an optimizer's step that writes into a
// weight, and before a scaler's last call of a step, with the tensor that tells whether the step was skipped.
using OnWrite = std::function<void(const std::optional<at::Tensor>& found_inf)>;

// Holds the program's calls as well, until the recording that runs stops. `copies`: of their outputs.
void start_holding(const std::vector<at::Tensor>& weights, OnWrite on_write, bool copies);
// While holding is paused, calls are the debug tool's own.
void pause_holding(bool is_paused);
void set_step(bool is_step);

// Returns whether an output is not finite among the calls from one on. Waits for each device once.
bool any_non_finite(size_t first);
size_t held_count();
std::vector<std::shared_ptr<ProgramCall>> held_calls();
// Drops the held calls, and the calls that have ended and were not taken.
void drop_calls();

// A call of the program while it runs.
struct Running {
  Running();
  ~Running();

  std::shared_ptr<ProgramCall> call;
  std::vector<at::Tensor> written;
};

// These are for the recorder. The first returns nullptr for a call that is not held.
std::unique_ptr<Running> begin_program_call(const at::RecordFunction& function, const c10::OperatorHandle& op);
void end_program_call(Running& running, const at::RecordFunction& function);
void stop_holding();

}  // namespace polycast::call_recorder
