// Whether lists of tensors share memory: by the intervals that the tensors span, and where those of tensors with gaps
// cross, byte by byte.
#include <c10/util/hash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "multi_tensor/lists.h"

namespace polycast::multi_tensor {

namespace {

struct Place {
  uintptr_t begin;
  uintptr_t end;
  const List* list;
  size_t index;

  const at::Tensor& tensor() const {
    return list->tensors[index];
  }
};

bool has_memory(const at::Tensor& tensor) {
  return !tensor.key_set().has(c10::DispatchKey::Python) && tensor.has_storage() && tensor.numel() > 0 &&
         tensor.const_data_ptr() != nullptr;
}

bool has_gaps(const at::Tensor& tensor) {
  return !tensor.is_contiguous() && !tensor.is_non_overlapping_and_dense();
}

Place place_of(const List& list, size_t index) {
  const at::Tensor& tensor = list.tensors[index];
  int64_t elements = tensor.numel();
  if (has_gaps(tensor)) {
    elements = 1;
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      elements += (tensor.size(dim) - 1) * tensor.stride(dim);
    }
  }
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  return {begin, begin + elements * tensor.itemsize(), &list, index};
}

template <class Visit>
void visit_places(const List& list, size_t begin, size_t end, const Visit& visit) {
  for (size_t index = begin; index < end; ++index) {
    if (has_memory(list.tensors[index])) {
      visit(place_of(list, index));
    }
  }
}

// The answer depends on nothing but the places, so one that was found disjoint need not be looked at again: a training
// loop asks about the same places at each step.
std::array<std::atomic<size_t>, 256> known_disjoint{};

[[noreturn]] void refuse(const char* op, const Place& one, const Place& other) {
  TORCH_CHECK_VALUE(
      false,
      op,
      ": ",
      one.list->name,
      "[",
      one.index,
      "] shares memory with ",
      other.list->name,
      "[",
      other.index,
      "]; give each tensor memory of its own");
}

template <class Visit>
void visit_elements(const at::Tensor& tensor, int64_t dim, uintptr_t address, const Visit& visit) {
  if (dim == tensor.dim()) {
    visit(address);
    return;
  }
  for (int64_t index = 0; index < tensor.size(dim); ++index) {
    visit_elements(tensor, dim + 1, address + index * tensor.stride(dim) * tensor.itemsize(), visit);
  }
}

void check_bytes(const char* op, std::vector<Place>::const_iterator begin, std::vector<Place>::const_iterator end) {
  uintptr_t top = 0;
  for (auto place = begin; place != end; ++place) {
    top = std::max(top, place->end);
  }
  std::vector<int32_t> owner(top - begin->begin, -1);
  for (auto place = begin; place != end; ++place) {
    visit_elements(place->tensor(), 0, place->begin, [&](uintptr_t address) {
      for (size_t byte = 0; byte < place->tensor().itemsize(); ++byte) {
        int32_t& other = owner[address - begin->begin + byte];
        if (other >= 0 && (place->list->written || (begin + other)->list->written)) {
          refuse(op, *place, *(begin + other));
        }
        other = static_cast<int32_t>(place - begin);
      }
    });
  }
}

// Places that cross each other, one after another, as [begin, end) of the sorted list.
void check_crossing(const char* op, std::vector<Place>::const_iterator begin, std::vector<Place>::const_iterator end) {
  const bool written = std::any_of(begin, end, [](const Place& place) { return place.list->written; });
  const bool gaps = std::any_of(begin, end, [](const Place& place) { return has_gaps(place.tensor()); });
  if (!written || (end - begin == 1 && !gaps)) {
    return;
  }
  if (gaps || end - begin > 2) {
    check_bytes(op, begin, end);
  } else {
    refuse(op, begin[1], begin[0]);
  }
}

}  // namespace

size_t fingerprint(at::TensorList tensors) {
  size_t result = tensors.size();
  for (const at::Tensor& tensor : tensors) {
    if (has_memory(tensor)) {
      result = c10::hash_combine(result, c10::get_hash(tensor.const_data_ptr(), tensor.nbytes()));
      if (has_gaps(tensor)) {
        result = c10::hash_combine(result, c10::get_hash(tensor.sizes(), tensor.strides()));
      }
    }
  }
  return result;
}

void check_disjoint(const char* op, c10::ArrayRef<List> lists) {
  size_t key = 0;
  for (const List& list : lists) {
    key = c10::hash_combine(key, c10::get_hash(fingerprint(list.tensors), list.written));
  }
  check_disjoint(op, lists, key);
}

void check_disjoint(const char* op, c10::ArrayRef<List> lists, size_t key) {
  key |= 1;
  std::atomic<size_t>& known = known_disjoint[key / 2 % known_disjoint.size()];
  if (known.load(std::memory_order_relaxed) == key) {
    return;
  }
  std::vector<Place> all;
  for (const List& list : lists) {
    visit_places(list, 0, list.tensors.size(), [&](const Place& place) { all.push_back(place); });
  }
  std::sort(all.begin(), all.end(), [](const Place& left, const Place& right) { return left.begin < right.begin; });
  for (auto begin = all.cbegin(); begin != all.cend();) {
    uintptr_t top = begin->end;
    auto end = begin + 1;
    for (; end != all.cend() && end->begin < top; ++end) {
      top = std::max(top, end->end);
    }
    check_crossing(op, begin, end);
    begin = end;
  }
  known.store(key, std::memory_order_relaxed);
}

}  // namespace polycast::multi_tensor
