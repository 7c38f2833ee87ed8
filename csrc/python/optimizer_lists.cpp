#include "python/optimizer_lists.h"

#include <algorithm>

#include "multi_tensor/lists.h"
#include "multi_tensor/prefetch.h"
#include "python/params.h"

namespace py = pybind11;

namespace polycast::python {

OptimizerLists::OptimizerLists(
    const py::dict& state, const py::list& param_groups, const std::vector<std::string>& keys)
    : snapshot_(state, param_groups) {
  for (size_t group = 0; group < param_groups.size(); ++group) {
    for (const py::handle param : py::list(py::dict(param_groups[group])["params"])) {
      const at::Tensor& tensor = unpack(param.ptr());
      if (!grad_of(tensor).defined()) {
        waiting_.push_back(tensor);
      } else {
        add(group, tensor, state.contains(param) ? py::dict(state[param]) : py::dict(), keys);
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
}

void OptimizerLists::add(
    size_t group, const at::Tensor& param, const py::dict& values, const std::vector<std::string>& keys) {
  const auto fits = [&](const Batch& batch) { return batch.group == group && batch.device == param.device(); };
  auto batch = std::find_if(all_.begin(), all_.end(), fits);
  if (batch == all_.end()) {
    all_.push_back({group, param.device(), {}, {}, std::vector<std::vector<at::Tensor>>(keys.size())});
    batch = all_.end() - 1;
  }
  batch->params.push_back(param);
  for (size_t key = 0; key < keys.size(); ++key) {
    PyObject* const value = PyDict_GetItemString(values.ptr(), keys[key].c_str());
    batch->state[key].push_back(value == nullptr ? at::Tensor() : unpack(value));
  }
}

bool OptimizerLists::is_current(const py::dict& state, const py::list& param_groups) const {
  const auto has_grad = [](const at::Tensor& param) { return grad_of(param).defined(); };
  return std::none_of(waiting_.begin(), waiting_.end(), has_grad) && snapshot_.holds(state, param_groups);
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
  all.grads.clear();
  for (size_t at = 0; at < all.params.size(); ++at) {
    multi_tensor::prefetch(all.params, at + multi_tensor::prefetch_distance);
    const at::Tensor& grad = grad_of(all.params[at]);
    if (!grad.defined() || grad.layout() != at::kStrided) {
      break;
    }
    all.grads.push_back(grad);
  }
  if (all.grads.size() == all.params.size()) {
    active_.push_back(&all);
    return;
  }
  all.grads.clear();
  Batch& part = parts_[index] = all.like();
  for (size_t at = 0; at < all.params.size(); ++at) {
    const at::Tensor& grad = grad_of(all.params[at]);
    if (!grad.defined()) {
      continue;
    }
    if (grad.layout() != at::kStrided) {
      sparse_.emplace_back(all.group, all.params[at]);
      continue;
    }
    part.params.push_back(all.params[at]);
    part.grads.push_back(grad);
    for (size_t key = 0; key < all.state.size(); ++key) {
      part.state[key].push_back(all.state[key][at]);
    }
  }
  if (!part.params.empty()) {
    active_.push_back(&part);
  }
}

void OptimizerLists::release() {
  active_.clear();
  for (Batch& batch : all_) {
    batch.grads.clear();
  }
  for (Batch& part : parts_) {
    part = part.like();
  }
}

}  // namespace polycast::python
