// DTensors. What an operator over lists takes of one is the shard that this process holds.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <vector>

#include "bindings/params.h"

namespace polycast::bindings {

// Whether it is a DTensor. Does not import torch.distributed: without it there are none.
bool is_sharded(const at::Tensor& tensor);

// The shard of a DTensor, any other tensor as it is; awaited where a collective may still be computing it.
at::Tensor local_of(const at::Tensor& tensor);

// The mesh that a DTensor lies on, and those of its dimensions along which the shards are different parts. For any
// other tensor None, and no dimension.
struct Layout {
  pybind11::object mesh = pybind11::none();
  std::vector<int64_t> split;

  bool operator==(const Layout& other) const;
};

// Raises a ValueError for a parameter that is a pending sum, which no step can update.
Layout layout_of(const Param& param);

// Gives a DTensor a gradient that lies as the parameter does, where it has one that lies otherwise. Raises a ValueError
// with the name of the parameter where that cannot be.
void align_grad(const Param& param);

// Writing to a shard does not raise the version of its DTensor.
void raise_version(const at::Tensor& tensor);

}  // namespace polycast::bindings
