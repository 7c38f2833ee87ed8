// Lists of tensors for `multi_tensor_apply`: pointers to elements that have the same order in memory in each list.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "multi_tensor/multi_tensor_apply.h"
#include "multi_tensor/op_arguments.h"
#include "multi_tensor/tensor_memory.h"

namespace polycast::multi_tensor {

// Returns whether a tensor has the dispatch keys and the sizes of the tensor `model`, is contiguous, and has a
// supported dtype. Most pairs are plain and need no further check.
inline bool is_plain_pair(const at::Tensor& model, const at::Tensor& tensor) {
  return tensor.key_set() == model.key_set() && tensor.sizes() == model.sizes() && tensor.is_contiguous() &&
         is_real(tensor.scalar_type());
}

// The items of the first n lists of a call. An item uses float64 arithmetic if its tensor in the first list is float64,
// otherwise float32 arithmetic. The two kinds of items are stored separately. Items whose tensors have gaps or
// different layouts are processed one at a time, through copies.
template <size_t n>
class TensorLists {
 public:
  // Checks all arguments of the call. If the first n lists have plain tensors only, and the first has no float64
  // tensor, one pass checks them and makes the items.
  explicit TensorLists(const Call& call) {
    std::copy_n(call.lists.begin(), n, lists_.begin());
    for (size_t list = 0; list < n; ++list) {
      written_[list] = call.expected.lists[list].use == Use::written;
    }
    check_scalars(call);
    in_float_.resize(lists_[0].size());
    const bool all_plain = add_all();
    for (size_t list = all_plain ? n : 0; list < call.lists.size(); ++list) {
      check_list(call, list);
    }
    if (!all_plain) {
      sort_out();
    }
  }

  // Runs an algorithm over the items with float32 arithmetic, and another over the items with float64.
  template <class Float, class Double>
  void apply(const Float& in_float, const Double& in_double) const {
    multi_tensor_apply<float>(in_float, in_float_);
    multi_tensor_apply<double>(in_double, in_double_);
    for (const size_t index : apart_) {
      apply_on_copies(in_float, in_double, tensors_at(index), index);
    }
  }

  template <class Algorithm>
  void apply(const Algorithm& algorithm) const {
    apply(algorithm, algorithm);
  }

  // Returns whether any item needs float64 arithmetic.
  bool has_double() const {
    const auto is_double = [&](size_t index) { return lists_[0][index].scalar_type() == at::kDouble; };
    return !in_double_.empty() || std::any_of(apart_.begin(), apart_.end(), is_double);
  }

 private:
  using Tensors = std::array<at::Tensor, n>;

  Tensors tensors_at(size_t index) const {
    Tensors tensors;
    std::transform(lists_.begin(), lists_.end(), tensors.begin(), [&](at::TensorList list) { return list[index]; });
    return tensors;
  }

  // Fills the item with the tensors at an index. Returns false if a tensor with elements has no memory.
  template <class TensorAt>
  bool fill(Item<n>& item, size_t index, const TensorAt& tensor_at) const {
    item.numel = tensor_at(0).numel();
    item.index = index;
    bool has_memory = true;
    for (size_t list = 0; list < n; ++list) {
      const at::Tensor& tensor = tensor_at(list);
      item.data[list] = written_[list] ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
      item.type[list] = tensor.scalar_type();
      has_memory = has_memory && (item.data[list] != nullptr || item.numel == 0);
    }
    return has_memory;
  }

  bool add_all() {
    const at::TensorList models = lists_[0];
    if (models.empty() || !is_plain_pair(models[0], models[0]) || !models[0].is_cpu() || models[0].is_inference()) {
      return models.empty();
    }
    std::atomic<bool> regular = true;
    at::parallel_for(0, models.size(), tensor_grain_size, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        for (const at::TensorList list : lists_) {
          prefetch_ahead(list, index);
        }
        if (!add(models[0], index)) {
          regular = false;
        }
      }
    });
    return regular;
  }

  // Adds the item at an index. Returns false if the item needs further checks, copies or float64 arithmetic.
  bool add(const at::Tensor& first, size_t index) {
    const at::Tensor& model = lists_[0][index];
    if (model.key_set() != first.key_set()) {
      return false;
    }
    for (size_t list = 0; list < n; ++list) {
      if (!is_plain_pair(model, lists_[list][index])) {
        return false;
      }
    }
    Item<n>& item = in_float_[index];
    const auto tensor_at = [&](size_t list) -> const at::Tensor& { return lists_[list][index]; };
    return fill(item, index, tensor_at) && item.type[0] != at::kDouble;
  }

  void sort_out() {
    in_float_.clear();
    for (size_t index = 0; index < lists_[0].size(); ++index) {
      const Tensors tensors = tensors_at(index);
      const auto follows = [&](const at::Tensor& tensor) { return same_order(tensors[0], tensor); };
      if (!std::all_of(tensors.begin(), tensors.end(), follows)) {
        apart_.push_back(index);
      } else {
        auto& items = tensors[0].scalar_type() == at::kDouble ? in_double_ : in_float_;
        fill(items.emplace_back(), index, [&](size_t list) -> const at::Tensor& { return tensors[list]; });
      }
    }
  }

  template <class Float, class Double>
  void apply_on_copies(const Float& in_float, const Double& in_double, const Tensors& tensors, size_t index) const {
    const at::Tensor& first = tensors[0];
    const at::Tensor model = same_order(first, first) ? first : at::empty_like(first, at::MemoryFormat::Contiguous);
    Tensors used;
    for (size_t list = 0; list < n; ++list) {
      const at::Tensor& tensor = tensors[list];
      const at::TensorOptions options = model.options().dtype(tensor.scalar_type());
      used[list] = same_order(model, tensor) ? tensor : at::empty_like(model, options).copy_(tensor);
    }
    std::vector<Item<n>> items(1);
    fill(items[0], index, [&](size_t list) -> const at::Tensor& { return used[list]; });
    if (first.scalar_type() == at::kDouble) {
      multi_tensor_apply<double>(in_double, items);
    } else {
      multi_tensor_apply<float>(in_float, items);
    }
    for (size_t list = 0; list < n; ++list) {
      if (written_[list] && !used[list].is_same(tensors[list])) {
        tensors[list].copy_(used[list]);
      }
    }
  }

  std::array<at::TensorList, n> lists_;
  std::array<bool, n> written_;
  std::vector<Item<n>> in_float_;
  std::vector<Item<n>> in_double_;
  std::vector<size_t> apart_;  // The tensors of these items have gaps or different layouts.
};

}  // namespace polycast::multi_tensor
