// The loop over the elements of lists of tensors on the CPU, for any algorithm. Each thread processes about the same
// number of elements, block by block.
//
// If a tensor has the dtype of the arithmetic, the algorithm works on its blocks in place. A block of another dtype is
// converted into a buffer that fits into the L1 cache, and back if the algorithm writes it. Each algorithm is therefore
// compiled only for float and double, and supports every dtype of `is_real` for parameters, gradients and state.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "multi_tensor/convert.h"
#include "multi_tensor/instruction_set.h"
#include "multi_tensor/tensor_memory.h"

namespace polycast::multi_tensor {

constexpr int64_t block_size = 1024;
// Converted blocks are shorter, so that the CPU loads the next block while it computes the current one.
constexpr int64_t converted_block_size = 256;
// Below this many elements a second thread costs more than it saves.
constexpr int64_t grain_size = 32768;

// The arguments of an algorithm for one tensor and its gradient and state: n streams of the same length.
template <size_t n>
struct Item {
  std::array<void*, n> data;
  std::array<at::ScalarType, n> type;
  int64_t numel;
  size_t index;  // The index of the tensor in its list.
};

template <class Type, class Math>
[[gnu::always_inline]] inline Math* load(void* data, int64_t offset, int64_t count, Math* buffer) {
  Type* const source = static_cast<Type*>(data) + offset;
  if constexpr (std::is_same_v<Type, Math>) {
    return source;
  } else {
    convert(source, count, buffer);
    return buffer;
  }
}

template <class Type, class Math>
[[gnu::always_inline]] inline void store(void* data, int64_t offset, int64_t count, const Math* buffer) {
  if constexpr (!std::is_same_v<Type, Math>) {
    convert(buffer, count, static_cast<Type*>(data) + offset);
  }
}

// Calls `visit` with a value of the C++ type of a tensor's dtype.
template <class Visit>
[[gnu::always_inline]] inline decltype(auto) with_type(at::ScalarType type, const Visit& visit) {
  switch (type) {
    case at::kDouble:
      return visit(double{});
    case at::kHalf:
      return visit(c10::Half{});
    case at::kBFloat16:
      return visit(c10::BFloat16{});
    default:
      return visit(float{});
  }
}

// Prefetches the next block before the computation of the current block, stream after stream. Memory delivers
// consecutive bytes of one stream faster than alternating bytes of all streams.
template <size_t n>
[[gnu::always_inline]] inline void prefetch_block(const Item<n>& item, int64_t offset, int64_t count) {
  for (size_t stream = 0; stream < n; ++stream) {
    const auto size = static_cast<int64_t>(c10::elementSize(item.type[stream]));
    prefetch(static_cast<const char*>(item.data[stream]) + offset * size, count * size);
  }
}

template <class Math, size_t n>
[[gnu::always_inline]] inline int64_t block_size_of(const Item<n>& item) {
  constexpr at::ScalarType in_place = c10::CppTypeToScalarType<Math>::value;
  const bool converts =
      std::any_of(item.type.begin(), item.type.end(), [](at::ScalarType type) { return type != in_place; });
  return converts ? converted_block_size : block_size;
}

template <class Math, class Algorithm, size_t n>
[[gnu::always_inline]] inline void run_block(
    const Algorithm& algorithm, const Item<n>& item, int64_t offset, int64_t count) {
  alignas(64) Math buffers[n][block_size];
  std::array<Math*, n> streams;
  for (size_t stream = 0; stream < n; ++stream) {
    streams[stream] = with_type(item.type[stream], [&](auto type) __attribute__((always_inline)) {
      return load<decltype(type)>(item.data[stream], offset, count, buffers[stream]);
    });
  }
  algorithm(streams, count, item);
  for (size_t stream = 0; stream < n; ++stream) {
    if (Algorithm::written[stream]) {
      with_type(item.type[stream], [&](auto type) __attribute__((always_inline)) {
        store<decltype(type)>(item.data[stream], offset, count, buffers[stream]);
      });
    }
  }
}

// A loop over the elements [begin, end). The elements of all items are numbered consecutively, and `ends` has the end
// of each item.
template <class Math, class Algorithm, size_t n>
struct ApplyRange {
  const Algorithm& algorithm;
  const std::vector<Item<n>>& items;
  const std::vector<int64_t>& ends;

  [[gnu::always_inline]] void operator()(int64_t begin, int64_t end) const {
    size_t index = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    for (int64_t at = begin; at < end; ++index) {
      const Item<n>& item = items[index];
      if (item.numel < block_size && index + 4 < items.size()) {
        for (void* const data : items[index + 4].data) {
          prefetch(data, 256);
        }
      }
      const int64_t first = ends[index] - item.numel;
      const int64_t stop = std::min(ends[index], end);
      const int64_t size = block_size_of<Math>(item);
      for (; at < stop; at += size) {
        if (at + size < stop) {
          prefetch_block(item, at + size - first, size);
        }
        run_block<Math>(algorithm, item, at - first, std::min(size, stop - at));
      }
      at = stop;
    }
  }
};

// Runs `algorithm(array of n streams of Math, number of elements, item)` for each block of all items.
template <class Math, class Algorithm, size_t n>
void multi_tensor_apply(const Algorithm& algorithm, const std::vector<Item<n>>& items) {
  std::vector<int64_t> ends;
  ends.reserve(items.size());
  int64_t total = 0;
  for (const Item<n>& item : items) {
    ends.push_back(total += item.numel);
  }
  const ApplyRange<Math, Algorithm, n> body{algorithm, items, ends};
  at::parallel_for(0, total, grain_size, [&](int64_t begin, int64_t end) { run_vectorized(body, begin, end); });
}

}  // namespace polycast::multi_tensor
