// Many tensors computed with as one: the values of some of them in the memory of one, so that what is done with all of
// them takes as many calls as for one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace polycast::multi_tensor {

// Places of lists, whose tensors go into the same calls.
struct Part {
  at::ScalarType type;  // of the arithmetic
  bool is_joined;       // whether the calls take copies of the tensors
  std::vector<size_t> places;
  int64_t numel;

  std::vector<at::Tensor> of(at::TensorList list) const;
};

constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();
// So many elements keep a device busy for longer than it takes to launch a kernel, and their copies need little memory.
constexpr int64_t joined_limit = int64_t{1} << 22;

// Adds a place to the last part of its kind, or to a new one where that has more elements than the limit with it.
void add_place(
    std::vector<Part>& parts,
    size_t place,
    const at::Tensor& tensor,
    at::ScalarType type,
    bool is_joined,
    int64_t limit);

// The memory of one tensor as one tensor after the other, each laid out as its model.
std::vector<at::Tensor> split_like(at::TensorList models, const at::Tensor& joined);

// The values of tensors one after the other, each laid out as its model.
at::Tensor join_like(at::TensorList models, at::TensorList tensors, at::ScalarType type);

// A contiguous tensor as views of at most joined_limit elements; any other as it is.
std::vector<at::Tensor> pieces_of(const at::Tensor& tensor);

}  // namespace polycast::multi_tensor
