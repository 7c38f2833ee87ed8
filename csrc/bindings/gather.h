// The tensors of an optimizer, gathered from its dicts at each step into the lists that an operator takes.
//
// One walk in C++, without Python work for each tensor. Nothing is held from one step to the next: whatever was changed
// meanwhile is what the next walk finds.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/params.h"
#include "bindings/sharding.h"

namespace polycast::bindings {

// A list as operators take it, which first borrows its tensors, and holds them once all are gathered. Holding one is an
// atomic operation, between which no processor looks ahead: of thousands of small tensors, one by one, it would be most
// of the time that gathering them takes.
class Tensors {
 public:
  Tensors() = default;
  Tensors(Tensors&& other) noexcept
      : tensors_(std::move(other.tensors_)), is_held_(std::exchange(other.is_held_, false)) {}
  Tensors& operator=(Tensors&&) = delete;
  ~Tensors() {
    clear();
  }

  void push_back(const at::Tensor& tensor) {
    tensors_.push_back(c10::MaybeOwnedTraits<at::Tensor>::createBorrow(tensor));
  }
  void hold();
  void clear();
  operator at::TensorList() const {  // NOLINT: that is what it is
    return tensors_;
  }

 private:
  std::vector<at::Tensor> tensors_;
  bool is_held_ = false;
};

// What goes into one call of an operator: tensors of one device that lie on a mesh in the same way, or on none. Of a
// DTensor, the shard; of a sparse gradient that is gathered for itself, the values.
struct Batch {
  size_t group;  // 0 where gradients are gathered for themselves: those of all groups go together
  c10::Device device;
  Layout layout;
  // What the operator does to a tensor is for its class to say, which knows ATen's operators, in Python.
  bool is_subclass;

  pybind11::list param_groups;                       // for names
  std::vector<std::pair<size_t, size_t>> positions;  // of the parameters: group, and index in its params
  std::vector<at::Tensor> owned;                     // keep what is no tensor of the optimizer's itself
  Tensors params;                                    // none where gradients are gathered for themselves
  Tensors grads;
  std::vector<Tensors> state;                               // a list for each name, empty where there is no such name
  std::vector<at::Tensor> wholes;                           // the DTensors whose shards may be written
  std::vector<std::pair<at::Tensor, at::Tensor>> resolved;  // conj and neg views, and the copies that stand for them
  bool is_plain = true;                                     // all are on the CPU, and nothing but a kernel's business

  // Of all lists.
  void hold();

  // What messages call the parameter at this place of the lists.
  std::string name(size_t index) const {
    return name_of(param_groups, positions[index].first, positions[index].second);
  }
};

// coalesce_in_place: for a caller that writes to the values of sparse gradients. Raises a TypeError for a tensor
// subclass that says by itself what its values are, and is no DTensor.
std::vector<Batch> gather_gradients(const pybind11::list& param_groups, bool coalesce_in_place);

// What a step works on: its batches, and the parameters, with their groups, whose gradients are sparse, and those whose
// state is not ready. The latter are to be given their state; then it is gathered again, and nothing is ready that is
// not.
struct StepTensors {
  using Params = std::vector<std::pair<size_t, at::Tensor>>;

  std::vector<Batch> batches;
  Params sparse;
  Params not_ready;
};

// names: for each group those of a parameter's state, in the order of the operator's lists, None for a list that the
// step does without. Raises a TypeError or a ValueError, with the name of the parameter, for what no step can update.
StepTensors gather_step(
    const pybind11::list& param_groups,
    const pybind11::dict& state,
    const std::vector<pybind11::tuple>& names,
    bool is_ready);

void bind_batches(pybind11::module_& module);

}  // namespace polycast::bindings
