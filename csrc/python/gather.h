// The tensors of an optimizer, gathered from its dicts at each step into the lists that an operator takes.
//
// One walk in C++, without Python work for each tensor. Nothing is held from one step to the next: whatever was changed
// meanwhile is what the next walk finds.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "python/params.h"
#include "python/sharding.h"

namespace polycast::python {

// Tensors that are kept elsewhere, in a list as operators take it. Holding a tensor is an atomic operation, between
// which no processor looks ahead: of thousands of small tensors it would be most of the time that gathering them takes.
class BorrowedTensors {
 public:
  BorrowedTensors() = default;
  BorrowedTensors(BorrowedTensors&&) = default;
  BorrowedTensors& operator=(BorrowedTensors&&) = delete;
  ~BorrowedTensors() {
    clear();
  }

  void push_back(const at::Tensor& tensor) {
    tensors_.push_back(c10::MaybeOwnedTraits<at::Tensor>::createBorrow(tensor));
  }
  void clear() {
    std::for_each(tensors_.begin(), tensors_.end(), &c10::MaybeOwnedTraits<at::Tensor>::destroyBorrow);
    tensors_.clear();
  }
  operator at::TensorList() const {  // NOLINT: that is what it is
    return tensors_;
  }

 private:
  std::vector<at::Tensor> tensors_;
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
  // These keep the tensors of the lists.
  std::vector<pybind11::object> objects;
  std::vector<at::Tensor> owned;
  BorrowedTensors params;  // none where gradients are gathered for themselves
  BorrowedTensors grads;
  std::vector<BorrowedTensors> state;                       // a list for each name, empty where there is no such name
  std::vector<at::Tensor> wholes;                           // the DTensors whose shards may be written
  std::vector<std::pair<at::Tensor, at::Tensor>> resolved;  // conj and neg views, and the copies that stand for them
  bool is_plain = true;                                     // all are on the CPU, and nothing but a kernel's business

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

}  // namespace polycast::python
