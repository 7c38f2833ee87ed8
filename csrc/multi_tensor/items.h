// Tensors as the CPU engine walks them: pointers to elements that follow each other in the same order.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "multi_tensor/cpu.h"
#include "multi_tensor/lists.h"
#include "multi_tensor/prefetch.h"

namespace polycast::multi_tensor {

// Whether two tensors are as most are: of the same kind, device and sizes, real and contiguous. A pair that is needs no
// further check.
inline bool is_plain_pair(const at::Tensor& model, const at::Tensor& tensor) {
  return tensor.key_set() == model.key_set() && tensor.sizes() == model.sizes() && tensor.is_contiguous() &&
         is_real(tensor.scalar_type());
}

// A copy of a tensor whose elements follow each other in memory as those of the model do.
at::Tensor copy_for(const at::Tensor& model, const at::Tensor& tensor);

// The items of n lists that belong together, those of float64 arithmetic (the type of the first list decides) apart
// from those of float32. Where the tensors of an item differ in layout it is made of copies, until write_back.
template <size_t n>
class Items {
 public:
  // check raises what is wrong with the lists, which are of one length. It is asked only where not all is plain.
  template <class Written, class Check>
  Items(const std::array<at::TensorList, n>& lists, const Written& written, const Check& check)
      : in_float(lists[0].size()), lists_(lists) {
    std::copy_n(written.begin(), n, written_.begin());
    if (!add_all()) {
      check();
      sort_out();
    }
  }

  void write_back() const {
    for (const auto& [target, copy] : copies_) {
      target.copy_(copy);
    }
  }

  std::vector<Item<n>> in_float;
  std::vector<Item<n>> in_double;

 private:
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

  // False where the item is not one of float32 arithmetic on the tensors themselves.
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
    Item<n>& item = in_float[index];
    item.numel = model.numel();
    item.index = index;
    bool has_memory = true;
    for (size_t list = 0; list < n; ++list) {
      set(item, list, lists_[list][index]);
      has_memory = has_memory && (item.data[list] != nullptr || item.numel == 0);
    }
    return has_memory && item.type[0] != at::kDouble;
  }

  void set(Item<n>& item, size_t list, const at::Tensor& tensor) {
    item.data[list] = written_[list] ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
    item.type[list] = real_type(tensor);
  }

  void sort_out() {
    std::vector<Item<n>> all;
    all.swap(in_float);
    for (size_t index = 0; index < all.size(); ++index) {
      const at::Tensor& model = lists_[0][index];
      if (all[index].data[0] == nullptr) {
        all[index] = arranged(index);
      }
      (real_type(model) == at::kDouble ? in_double : in_float).push_back(all[index]);
    }
  }

  Item<n> arranged(size_t index) {
    const at::Tensor& first = lists_[0][index];
    const at::Tensor model = same_order(first, first) ? first : first.contiguous();
    Item<n> item{{}, {}, model.numel() * (model.is_complex() ? 2 : 1), index};
    for (size_t list = 0; list < n; ++list) {
      const at::Tensor& tensor = lists_[list][index];
      const at::Tensor used = list == 0 ? model : same_order(model, tensor) ? tensor : copy_for(model, tensor);
      if (!used.is_same(tensor)) {
        (written_[list] ? copies_ : inputs_).emplace_back(tensor, used);
      }
      set(item, list, used);
    }
    return item;
  }

  std::array<at::TensorList, n> lists_;
  std::array<bool, n> written_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
  std::vector<std::pair<at::Tensor, at::Tensor>> inputs_;
};

}  // namespace polycast::multi_tensor
