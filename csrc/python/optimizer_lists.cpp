#include "python/optimizer_lists.h"

#include <algorithm>

#include "multi_tensor/lists.h"
#include "multi_tensor/prefetch.h"
#include "python/params.h"
#include "python/sharding.h"

namespace py = pybind11;

namespace polycast::python {

namespace {

void prefetch(const std::vector<PlainParam>& params, size_t index) {
  if (index < params.size()) {
    multi_tensor::prefetch(params[index].tensor, sizeof(c10::TensorImpl));
  }
}

}  // namespace

bool ShardedParam::is_current() const {
  const auto same = [](const Sharded& sharded) { return local_of(unpack(sharded.tensor)).is_same(sharded.local); };
  return same(param) && std::all_of(state.begin(), state.end(), same);
}

void ShardedParam::raise_versions() const {
  raise_version(unpack(param.tensor));
  for (const Sharded& tensor : state) {
    raise_version(unpack(tensor.tensor));
  }
}

void Batch::raise_versions() const {
  if (!is_sharded) {
    return;
  }
  const py::gil_scoped_acquire gil;
  for (const auto& param : sharded) {
    param->raise_versions();
  }
}

void Batch::release() {
  params.clear();
  grads.clear();
}

bool Batch::is_current() const {
  for (size_t index = 0; index < plain.size(); ++index) {
    if (index + multi_tensor::prefetch_distance < plain.size()) {
      __builtin_prefetch(plain[index + multi_tensor::prefetch_distance].object);
    }
    if (unpack(plain[index].object).unsafeGetTensorImpl() != plain[index].tensor) {
      return false;
    }
  }
  const auto is_current = [](const std::shared_ptr<const ShardedParam>& param) { return param->is_current(); };
  return std::all_of(sharded.begin(), sharded.end(), is_current);
}

at::Tensor Batch::param(size_t index) const {
  if (is_sharded) {
    return sharded[index]->param.local;
  }
  return at::Tensor(c10::intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>::reclaim_copy(plain[index].tensor));
}

at::Tensor Batch::grad(size_t index) const {
  if (!is_sharded) {
    return plain[index].tensor->grad();
  }
  const at::Tensor& param = unpack(sharded[index]->param.tensor);
  if (grad_of(param).defined()) {
    align_grad(param, sharded[index]->name);
    return local_of(grad_of(param));
  }
  return {};
}

OptimizerLists::OptimizerLists(
    const py::dict& state, const py::list& param_groups, const std::vector<std::string>& keys)
    : snapshot_(state, param_groups) {
  for (size_t group = 0; group < param_groups.size(); ++group) {
    PyObject* const values = PyList_GET_ITEM(param_groups.ptr(), group);
    PyObject* const params = params_of(values);
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(params); ++index) {
      const py::handle param = PyList_GET_ITEM(params, index);
      if (!grad_of(unpack(param.ptr())).defined()) {
        waiting_.push_back(param.ptr());
      } else {
        const py::dict values_of_param = state.contains(param) ? py::dict(state[param]) : py::dict();
        add({group, name_of(values, group, index), param.ptr()}, values_of_param, keys);
      }
    }
  }
  std::vector<multi_tensor::List> lists;
  for (const Batch& batch : all_) {
    parts_.push_back(batch.like());
    lists.push_back({"params", batch.params, true});
    for (size_t key = 0; key < keys.size(); ++key) {
      lists.push_back({keys[key].c_str(), batch.state[key], true});
    }
  }
  multi_tensor::check_disjoint("optimizer", lists);
  release();
}

Batch& OptimizerLists::batch_of(const Param& param, const at::Tensor& local, size_t keys) {
  const bool sharded = is_sharded(unpack(param.tensor));
  const auto fits = [&](const Batch& batch) {
    return batch.group == param.group && batch.device == local.device() && batch.is_sharded == sharded;
  };
  const auto batch = std::find_if(all_.begin(), all_.end(), fits);
  if (batch != all_.end()) {
    return *batch;
  }
  all_.push_back({param.group, local.device(), {}, {}, std::vector<std::vector<at::Tensor>>(keys), sharded});
  return all_.back();
}

void OptimizerLists::add(const Param& param, const py::dict& values, const std::vector<std::string>& keys) {
  const at::Tensor local = local_of(unpack(param.tensor));
  Batch& batch = batch_of(param, local, keys.size());
  batch.params.push_back(local);  // to be looked at with all others
  std::vector<Sharded> sharded_state;
  for (size_t key = 0; key < keys.size(); ++key) {
    PyObject* const value = PyDict_GetItemString(values.ptr(), keys[key].c_str());
    batch.state[key].push_back(value == nullptr ? at::Tensor() : local_of(unpack(value)));
    if (value != nullptr && is_sharded(unpack(value))) {
      sharded_state.push_back({value, batch.state[key].back()});
    }
  }
  if (batch.is_sharded) {
    layout_of(unpack(param.tensor), param.name);
    batch.sharded.push_back(
        std::make_shared<const ShardedParam>(ShardedParam{param.name, {param.tensor, local}, sharded_state}));
    return;
  }
  if (!sharded_state.empty()) {
    throw py::value_error(
        "the state of " + param.name + " is a DTensor and the parameter is none; load it as a tensor");
  }
  batch.plain.push_back({param.tensor, local.unsafeGetTensorImpl()});
}

bool OptimizerLists::is_current(const py::dict& state, const py::list& param_groups) const {
  const auto has_grad = [](PyObject* param) { return grad_of(unpack(param)).defined(); };
  if (!snapshot_.holds(state, param_groups) || std::any_of(waiting_.begin(), waiting_.end(), has_grad)) {
    return false;
  }
  return std::all_of(all_.begin(), all_.end(), [](const Batch& batch) { return batch.is_current(); });
}

void OptimizerLists::gather() {
  active_.clear();
  sparse_.clear();
  for (size_t index = 0; index < all_.size(); ++index) {
    gather(index);
  }
}

void OptimizerLists::gather(size_t index) {
  Batch& all = all_[index];
  for (size_t at = 0; at < all.size(); ++at) {
    prefetch(all.plain, at + multi_tensor::prefetch_distance);
    at::Tensor grad = all.grad(at);
    if (!grad.defined() || grad.layout() != at::kStrided) {
      break;
    }
    all.params.push_back(all.param(at));
    all.grads.push_back(std::move(grad));
  }
  if (all.grads.size() == all.size()) {
    active_.push_back(&all);
    return;
  }
  all.release();
  Batch& part = parts_[index] = all.like();
  for (size_t at = 0; at < all.size(); ++at) {
    const at::Tensor grad = all.grad(at);
    if (!grad.defined()) {
      continue;
    }
    if (grad.layout() != at::kStrided) {
      sparse_.emplace_back(all.group, all.param(at));
      continue;
    }
    part.params.push_back(all.param(at));
    part.grads.push_back(grad);
    for (size_t key = 0; key < all.state.size(); ++key) {
      part.state[key].push_back(all.state[key][at]);
    }
    if (all.is_sharded) {
      part.sharded.push_back(all.sharded[at]);
    }
  }
  if (!part.params.empty()) {
    active_.push_back(&part);
  }
}

void OptimizerLists::release() {
  active_.clear();
  sparse_.clear();
  for (Batch& batch : all_) {
    batch.release();
  }
  for (Batch& part : parts_) {
    part = part.like();
  }
}

}  // namespace polycast::python
