#include "bindings/gather.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "bindings/operators.h"
#include "kernels/lists.h"

namespace py = pybind11;

namespace polycast::bindings {

namespace {

// Borrowed; null where the dict has no such key.
PyObject* item_of(PyObject* dict, PyObject* key) {
  PyObject* const item = PyDict_GetItemWithError(dict, key);
  if (item == nullptr && PyErr_Occurred() != nullptr) {
    throw py::error_already_set();
  }
  return item;
}

// The state of one parameter after the other. It mostly stands in the order of the parameters, where no tensor need be
// asked for its hash, which is a call into Python.
class StateDicts {
 public:
  explicit StateDicts(const py::dict& state) : state_(state.ptr()) {
    advance();
  }

  // Null where a parameter has none.
  PyObject* of(PyObject* param) {
    PyObject* const values = param == param_ ? values_ : item_of(state_, param);
    pass(param);
    return values != nullptr && PyDict_Check(values) ? values : nullptr;
  }

  void pass(PyObject* param) {
    if (param == param_) {
      advance();
    }
  }

 private:
  void advance() {
    if (PyDict_Next(state_, &position_, &param_, &values_) == 0) {
      param_ = nullptr;
    }
  }

  PyObject* state_;
  Py_ssize_t position_ = 0;
  PyObject* param_ = nullptr;
  PyObject* values_ = nullptr;
};

// Whether a tensor can be part of a parameter's state as it is. One that lies elsewhere is for Python to move.
bool fits(const at::Tensor& value, const at::Tensor& param) {
  if (value.device() != param.device() || value.layout() != at::kStrided) {
    return false;
  }
  return !is_sharded(value) || !is_sharded(param) || value.sizes() != param.sizes() ||
         local_of(value).sizes() == local_of(param).sizes();
}

// Whether a tensor is its memory, as most are: no view of a conjugate or a negative, and nothing that a class explains.
bool is_its_memory(const at::Tensor& tensor) {
  using Key = c10::DispatchKey;
  return !tensor.key_set().has_any(c10::DispatchKeySet({Key::Python, Key::Conjugate, Key::Negative, Key::ZeroTensor}));
}

// The memory of a gradient, which may be a view of its conjugate or its negative: what is not finite, the norm, and the
// product with a number are the same there but for signs.
at::Tensor memory_of(const at::Tensor& grad) {
  if (grad._is_zerotensor()) {
    return at::zeros_like(grad);
  }
  const at::Tensor straight = grad.is_conj() ? grad.conj() : grad;
  return straight.is_neg() ? at::_neg_view(straight) : straight;
}

// The values of a tensor that is only read.
at::Tensor values_of(at::Tensor tensor) {
  if (tensor._is_zerotensor()) {
    return at::zeros_like(tensor);
  }
  return tensor.is_conj() || tensor.is_neg() ? tensor.resolve_conj().resolve_neg() : tensor;
}

class Gatherer {
 public:
  explicit Gatherer(const py::list& param_groups) : param_groups_(param_groups) {}

  void add_gradient(const Param& param, bool coalesce_in_place) {
    const at::Tensor& grad = grad_of(param.tensor);
    if (is_its_memory(param.tensor) && is_its_memory(grad) && !grad.is_sparse()) {
      Batch& batch = find(0, grad.device(), nowhere_, false);
      batch.positions.emplace_back(param.group, param.index);
      own(batch, batch.grads, grad);
      return;
    }
    const Layout& layout = align(param);
    if (coalesce_in_place && grad.is_sparse() && !grad.is_coalesced()) {
      param.tensor.mutable_grad() = grad.coalesce();
    }
    const at::Tensor local = local_of(grad);
    if (is_opaque(local)) {
      throw py::type_error(
          "the gradient of " + param.name() + " is a " + class_of(local) +
          ", whose values only that class knows; give it a plain tensor or a DTensor");
    }
    Batch& batch = find(0, local.device(), layout, false);
    batch.positions.emplace_back(param.group, param.index);
    // The duplicates of a gradient that is not coalesced add up.
    own(batch, batch.grads, memory_of(local.is_sparse() ? local.coalesce()._values() : local));
    if (is_sharded(grad)) {
      batch.wholes.push_back(grad);
    }
  }

  // state: in the order of the operator's lists, null where the step does without.
  void add_step(const Param& param, c10::ArrayRef<PyObject*> state) {
    const at::Tensor& whole_grad = grad_of(param.tensor);
    const auto is_simple = [](PyObject* value) { return value == nullptr || is_its_memory(unpack(value)); };
    if (is_simple(param.object) && is_its_memory(whole_grad) && std::all_of(state.begin(), state.end(), is_simple)) {
      Batch& batch = find(param.group, param.tensor.device(), nowhere_, false);
      batch.positions.emplace_back(param.group, param.index);
      batch.state.resize(state.size());
      add(batch, batch.params, param.object);
      own(batch, batch.grads, whole_grad);
      for (size_t key = 0; key < state.size(); ++key) {
        if (state[key] != nullptr) {
          add(batch, batch.state[key], state[key]);
        }
      }
      return;
    }
    const Layout& layout = align(param);
    locals_.clear();
    for (PyObject* value : state) {
      locals_.push_back(value == nullptr ? at::Tensor() : local_of(unpack(value)));
    }
    at::Tensor local = local_of(param.tensor), grad = local_of(whole_grad);
    const bool is_subclass =
        is_opaque(local) || is_opaque(grad) || std::any_of(locals_.begin(), locals_.end(), &is_opaque);
    Batch& batch = find(param.group, local.device(), layout, is_subclass);
    batch.positions.emplace_back(param.group, param.index);
    batch.state.resize(state.size());
    note_whole(batch, param, param.tensor);
    own(batch, batch.params, writable(batch, param, std::move(local)));
    own(batch, batch.grads, values_of(std::move(grad)));
    for (size_t key = 0; key < state.size(); ++key) {
      if (state[key] != nullptr) {
        note_whole(batch, param, unpack(state[key]));
        own(batch, batch.state[key], writable(batch, param, std::move(locals_[key])));
      }
    }
  }

  // The batches, which nothing else need keep from now on.
  std::vector<Batch> take() {
    std::for_each(batches.begin(), batches.end(), [](Batch& batch) { batch.hold(); });
    return std::move(batches);
  }

  std::vector<Batch> batches;

 private:
  // Where the shards of a parameter and of its gradient lie, the latter after it was brought there.
  const Layout& align(const Param& param) {
    const at::Tensor& grad = grad_of(param.tensor);
    if (!is_python(param.tensor) && !is_python(grad)) {
      return nowhere_;
    }
    if (is_sharded(param.tensor)) {
      align_grad(param);
    } else if (is_sharded(grad)) {
      throw py::value_error(
          "the gradient of " + param.name() + " is a DTensor and the parameter is none; give it a plain tensor");
    }
    return layout_ = layout_of(param);
  }

  // Neighbours mostly go together.
  Batch& find(size_t group, c10::Device device, const Layout& layout, bool is_subclass) {
    const auto is_it = [&](const Batch& batch) {
      return batch.group == group && batch.device == device && batch.is_subclass == is_subclass &&
             batch.layout == layout;
    };
    const auto batch = std::find_if(batches.rbegin(), batches.rend(), is_it);
    return batch != batches.rend() ? *batch
                                   : batches.emplace_back(Batch{group, device, layout, is_subclass, param_groups_});
  }

  static void push(Batch& batch, Tensors& list, const at::Tensor& tensor) {
    batch.is_plain = batch.is_plain && operators::is_plain(tensor);
    list.push_back(tensor);
  }

  static void add(Batch& batch, Tensors& list, PyObject* object) {
    push(batch, list, unpack(object));
  }

  static void own(Batch& batch, Tensors& list, at::Tensor tensor) {
    batch.owned.push_back(std::move(tensor));
    push(batch, list, batch.owned.back());
  }

  // A tensor that a step writes to, or a copy that is written back.
  static at::Tensor writable(Batch& batch, const Param& param, at::Tensor tensor) {
    if (tensor._is_zerotensor()) {
      throw py::type_error(param.name() + " or its state is a ZeroTensor, which has no memory; clone it first");
    }
    if (!tensor.is_conj() && !tensor.is_neg()) {
      return tensor;
    }
    at::Tensor copy = tensor.resolve_conj().resolve_neg();
    batch.resolved.emplace_back(std::move(tensor), copy);
    return copy;
  }

  static void note_whole(Batch& batch, const Param& param, const at::Tensor& tensor) {
    if (!is_sharded(tensor)) {
      return;
    }
    if (!is_sharded(param.tensor)) {
      throw py::value_error(
          "the state of " + param.name() + " is a DTensor and the parameter is none; load it as a tensor");
    }
    batch.wholes.push_back(tensor);
  }

  const py::list& param_groups_;
  const Layout nowhere_;
  Layout layout_;
  std::vector<at::Tensor> locals_;
};

// What a parameter's state holds under the names; false where a tensor is missing that a step needs, or does not fit.
bool find_state(
    PyObject* values, const py::tuple& names, const Param& param, bool is_ready, std::vector<PyObject*>& state) {
  state.clear();
  for (const py::handle name : names) {
    state.push_back(nullptr);
    if (name.is_none()) {
      continue;
    }
    PyObject* const value = values == nullptr ? nullptr : item_of(values, name.ptr());
    if (value != nullptr && is_tensor(value)) {
      state.back() = value;
    } else if (is_ready) {
      const std::string found = value == nullptr ? "nothing" : std::string("a ") + Py_TYPE(value)->tp_name;
      throw py::type_error(
          "the state of " + param.name() + " has " + found + " under " + std::string(py::repr(name)) +
          "; give it a tensor");
    }
    if (!is_ready && (state.back() == nullptr || !fits(unpack(value), param.tensor))) {
      return false;
    }
  }
  return true;
}

}  // namespace

void Tensors::hold() {
  at::parallel_for(0, tensors_.size(), multi_tensor::tensor_grain_size, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      c10::raw::intrusive_ptr::incref(tensors_[index].unsafeGetTensorImpl());
    }
  });
  is_held_ = true;
}

void Tensors::clear() {
  if (!is_held_) {
    std::for_each(tensors_.begin(), tensors_.end(), &c10::MaybeOwnedTraits<at::Tensor>::destroyBorrow);
  } else if (tensors_.size() > static_cast<size_t>(multi_tensor::tensor_grain_size)) {
    const py::gil_scoped_release no_gil;  // the last owner of a tensor frees its Python object
    at::parallel_for(0, tensors_.size(), multi_tensor::tensor_grain_size, [&](int64_t begin, int64_t end) {
      std::for_each(tensors_.begin() + begin, tensors_.begin() + end, [](at::Tensor& tensor) { tensor.reset(); });
    });
  }
  tensors_.clear();
  is_held_ = false;
}

void Batch::hold() {
  params.hold();
  grads.hold();
  std::for_each(state.begin(), state.end(), [](Tensors& list) { list.hold(); });
}

std::vector<Batch> gather_gradients(const py::list& param_groups, bool coalesce_in_place) {
  Gatherer gatherer(param_groups);
  visit_params(param_groups, [&](const Param& param) {
    if (grad_of(param.tensor).defined()) {
      gatherer.add_gradient(param, coalesce_in_place);
    }
  });
  return gatherer.take();
}

StepTensors gather_step(
    const py::list& param_groups, const py::dict& state, const std::vector<py::tuple>& names, bool is_ready) {
  Gatherer gatherer(param_groups);
  StateDicts dicts(state);
  StepTensors result;
  std::vector<PyObject*> found;
  visit_params(param_groups, [&](const Param& param) {
    const at::Tensor& grad = grad_of(param.tensor);
    if (!grad.defined()) {
      dicts.pass(param.object);
    } else if (grad.is_sparse()) {
      dicts.pass(param.object);
      result.sparse.emplace_back(param.group, param.tensor);
    } else if (!find_state(dicts.of(param.object), names[param.group], param, is_ready, found)) {
      result.not_ready.emplace_back(param.group, param.tensor);
    } else {
      gatherer.add_step(param, found);
    }
  });
  result.batches = gatherer.take();
  return result;
}

}  // namespace polycast::bindings
