// The tensors of a Python optimizer, gathered once and used at every step until its dicts hold something else, so that
// a step costs no Python work for each tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

namespace polycast::python {

// What param_groups and state held. Compared by identity; the references keep the identities from being used again.
class Snapshot {
 public:
  Snapshot(const pybind11::dict& state, const pybind11::list& param_groups);

  bool holds(const pybind11::dict& state, const pybind11::list& param_groups) const;

  const std::vector<pybind11::object>& references() const {
    return references_;
  }

 private:
  struct Entry {
    PyObject* param;
    PyObject* values;  // the dict of the parameter
    size_t end;        // of its tensors in values_
  };

  std::vector<pybind11::object> references_;
  std::vector<PyObject*> groups_;
  std::vector<PyObject*> param_lists_;
  std::vector<PyObject*> params_;
  std::vector<Entry> entries_;
  std::vector<PyObject*> values_;
};

// A parameter that is no DTensor. The object is held by the snapshot, and holds the tensor.
struct PlainParam {
  PyObject* object;
  at::TensorImpl* tensor;
};

// A DTensor and its shard. Held as an object: torch.utils.swap_tensors refuses a tensor that anybody else refers to.
struct Sharded {
  PyObject* tensor;
  at::Tensor local;
};

// A parameter that is a DTensor, and those of its state.
struct ShardedParam {
  std::string name;
  Sharded param;
  std::vector<Sharded> state;

  // Whether the DTensors still have these shards.
  bool is_current() const;
  void raise_versions() const;
};

// Parameters of one group on one device, with their gradients and their state, list by list. Of DTensors, the shards.
//
// Between steps no reference to a parameter itself is held from here: torch.utils.swap_tensors would refuse it, and
// Python's garbage collector would not see through it.
struct Batch {
  size_t group;
  c10::Device device;
  std::vector<at::Tensor> params;
  std::vector<at::Tensor> grads;
  std::vector<std::vector<at::Tensor>> state;  // one list for each key; undefined where the state has no such key
  bool is_sharded = false;
  std::vector<std::shared_ptr<const ShardedParam>> sharded{};  // one for each parameter, if they are DTensors
  std::vector<PlainParam> plain{};                             // one for each, if they are not

  size_t size() const {
    return is_sharded ? sharded.size() : plain.size();
  }

  Batch like() const {
    return {group, device, {}, {}, std::vector<std::vector<at::Tensor>>(state.size()), is_sharded};
  }

  // Of the DTensors; the operators raise those of the tensors that they are given.
  void raise_versions() const;

  // Lets go of the parameters and the gradients.
  void release();

  // Whether the parameters are still the tensors that were gathered.
  bool is_current() const;

  // A parameter for the time of a step; of a DTensor, the shard.
  at::Tensor param(size_t index) const;

  // Of a parameter; a DTensor's is brought to its placements.
  at::Tensor grad(size_t index) const;
};

class OptimizerLists {
 public:
  // The keys name the tensors of a parameter's state, in the order of the operator's lists. Raises a ValueError where
  // parameters or state share memory.
  OptimizerLists(const pybind11::dict& state, const pybind11::list& param_groups, const std::vector<std::string>& keys);

  // Whether the optimizer still holds what was gathered, and no further parameter has a gradient.
  bool is_current(const pybind11::dict& state, const pybind11::list& param_groups) const;

  // Takes the gradients that the parameters have now. A parameter without one sits this step out.
  void gather();

  // Lets go of what gather took: no gradient outlives its parameter's hold on it, nor a parameter Python's.
  void release();

  // The Python objects that are held: a garbage collector finds that they hold the optimizer in turn.
  const std::vector<pybind11::object>& references() const {
    return snapshot_.references();
  }

  // What gather found: the batches that have dense gradients, and the parameters of each group with sparse ones.
  const std::vector<const Batch*>& active() const {
    return active_;
  }
  const std::vector<std::pair<size_t, at::Tensor>>& sparse() const {
    return sparse_;
  }

 private:
  struct Param {
    size_t group;
    std::string name;
    PyObject* tensor;
  };

  Batch& batch_of(const Param& param, const at::Tensor& local, size_t keys);
  void add(const Param& param, const pybind11::dict& values, const std::vector<std::string>& keys);
  void gather(size_t index);

  Snapshot snapshot_;
  std::vector<Batch> all_;
  std::vector<Batch> parts_;  // of each batch what has dense gradients, where that is not the whole
  std::vector<const Batch*> active_;
  std::vector<std::pair<size_t, at::Tensor>> sparse_;
  std::vector<PyObject*> waiting_;  // for a gradient
};

void bind_optimizer_lists(pybind11::module_& module);

}  // namespace polycast::python
