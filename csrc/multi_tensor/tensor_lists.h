// Lists of tensors for multi_tensor_apply: pointers to elements that follow each other in the same order.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/COW.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "multi_tensor/multi_tensor_apply.h"
#include "multi_tensor/prefetch.h"
#include "multi_tensor/tensor_memory.h"

namespace polycast::multi_tensor {

// Returns whether two tensors have the same layout, device and sizes, and are contiguous, as most are. Such a pair
// needs no further check.
inline bool is_plain_pair(const at::Tensor& model, const at::Tensor& tensor) {
  return tensor.key_set() == model.key_set() && tensor.sizes() == model.sizes() && tensor.is_contiguous() &&
         is_real(tensor.scalar_type());
}

// Returns a copy of a tensor with the memory layout of the model.
at::Tensor copy_for(const at::Tensor& model, const at::Tensor& tensor);

// Returns whether a write to a tensor copies its memory first, which PyTorch does not support in several threads.
inline bool is_copied_on_write(const at::Tensor& tensor) {
  return c10::impl::cow::is_cow_data_ptr(tensor.storage().data_ptr());
}

// The number of elements that are copied at a time if the tensors of an item have different layouts.
constexpr int64_t copied_limit = int64_t{1} << 18;

// The items of n corresponding lists. Items with float64 arithmetic, which the dtype of the first list determines, are
// separate from items with float32. An item whose tensors differ in layout runs on its own, on copies of its parts.
template <size_t n>
class TensorLists {
 public:
  // `check` raises the error of lists that are not valid. The lists have one length. It is called only if some tensor
  // is not plain.
  template <class Written, class Check>
  TensorLists(const std::array<at::TensorList, n>& lists, const Written& written, const Check& check)
      : lists_(lists), in_float_(lists[0].size()) {
    std::copy_n(written.begin(), n, written_.begin());
    if (!add_all()) {
      check();
      sort_out();
    }
  }

  // Runs the algorithm over all items: the one for float, and the one for double.
  template <class Float, class Double>
  void apply(const Float& in_float, const Double& in_double) const {
    multi_tensor_apply<float>(in_float, in_float_);
    multi_tensor_apply<double>(in_double, in_double_);
    for (const size_t index : apart_) {
      Tensors tensors;
      for (size_t list = 0; list < n; ++list) {
        tensors[list] = lists_[list][index];
      }
      apply_on_copies(in_float, in_double, tensors, index);
    }
  }

  // Returns whether some item needs float64 arithmetic.
  bool has_double() const {
    const auto is_double = [&](size_t index) { return lists_[0][index].scalar_type() == at::kDouble; };
    return !in_double_.empty() || std::any_of(apart_.begin(), apart_.end(), is_double);
  }

 private:
  using Tensors = std::array<at::Tensor, n>;

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

  // Returns false for an item that needs float64 arithmetic or copies.
  bool add(const at::Tensor& first, size_t index) {
    const at::Tensor& model = lists_[0][index];
    if (model.key_set() != first.key_set()) {
      return false;
    }
    for (size_t list = 0; list < n; ++list) {
      const at::Tensor& tensor = lists_[list][index];
      if (!is_plain_pair(model, tensor) || (written_[list] && is_copied_on_write(tensor))) {
        return false;
      }
    }
    Item<n>& item = in_float_[index];
    item.numel = model.numel();
    item.index = index;
    bool has_memory = true;
    for (size_t list = 0; list < n; ++list) {
      set(item, list, lists_[list][index]);
      has_memory = has_memory && (item.data[list] != nullptr || item.numel == 0);
    }
    return has_memory && item.type[0] != at::kDouble;
  }

  void set(Item<n>& item, size_t list, const at::Tensor& tensor) const {
    item.data[list] = written_[list] ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
    item.type[list] = tensor.scalar_type();
  }

  void sort_out() {
    std::vector<Item<n>> all;
    all.swap(in_float_);
    for (size_t index = 0; index < all.size(); ++index) {
      const at::Tensor& model = lists_[0][index];
      const auto follows = [&](at::TensorList list) { return same_order(model, list[index]); };
      if (!std::all_of(lists_.begin(), lists_.end(), follows)) {
        apart_.push_back(index);
        continue;
      }
      if (all[index].data[0] == nullptr) {
        all[index] = item_of(model.numel(), index);
        for (size_t list = 0; list < n; ++list) {
          set(all[index], list, lists_[list][index]);
        }
      }
      (model.scalar_type() == at::kDouble ? in_double_ : in_float_).push_back(all[index]);
    }
  }

  static Item<n> item_of(int64_t numel, size_t index) {
    return {{}, {}, numel, index};
  }

  // Splits along the dimension that is outermost in memory, so that dense tensors remain dense.
  template <class Float, class Double>
  void apply_on_copies(const Float& in_float, const Double& in_double, const Tensors& tensors, size_t index) const {
    const at::Tensor& first = tensors[0];
    if (first.numel() > copied_limit) {
      int64_t outermost = -1;
      for (int64_t dim = 0; dim < first.dim(); ++dim) {
        if (first.size(dim) > 1 && (outermost < 0 || first.stride(dim) > first.stride(outermost))) {
          outermost = dim;
        }
      }
      const int64_t size = first.size(outermost), half = size / 2;
      for (const auto& [begin, length] : {std::pair(int64_t{0}, half), std::pair(half, size - half)}) {
        Tensors part;
        std::transform(tensors.begin(), tensors.end(), part.begin(), [&, begin = begin, length = length](auto& tensor) {
          return tensor.narrow(outermost, begin, length);
        });
        apply_on_copies(in_float, in_double, part, index);
      }
      return;
    }
    const at::Tensor model = same_order(first, first) ? first : first.contiguous();
    Item<n> item = item_of(model.numel(), index);
    Tensors used;
    for (size_t list = 0; list < n; ++list) {
      const at::Tensor& tensor = tensors[list];
      used[list] = list == 0 ? model : same_order(model, tensor) ? tensor : copy_for(model, tensor);
      set(item, list, used[list]);
    }
    if (first.scalar_type() == at::kDouble) {
      multi_tensor_apply<double>(in_double, std::vector<Item<n>>{item});
    } else {
      multi_tensor_apply<float>(in_float, std::vector<Item<n>>{item});
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
  std::vector<size_t> apart_;  // the indices of items whose tensors differ in layout
};

}  // namespace polycast::multi_tensor
