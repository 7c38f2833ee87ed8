// The gradients of an optimizer as its operators take them: gathered without Python work for each tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <utility>
#include <vector>

#include "python/sharding.h"

namespace polycast::python {

// All gradients on one device that lie on a mesh in the same way, or on none. Of a sparse one, the values; of a
// DTensor, the shard, after it was brought to the placements of its parameter.
struct DeviceGradients {
  c10::Device device;
  Layout layout;
  std::vector<at::Tensor> tensors;
  std::vector<at::Tensor> sharded;                   // the DTensors whose shards these are
  std::vector<std::pair<size_t, size_t>> positions;  // group, and index in its params
};

// coalesce_in_place: for a caller that writes to the values of sparse gradients.
std::vector<DeviceGradients> gather_gradients(const pybind11::list& param_groups, bool coalesce_in_place);

void bind_gradients(pybind11::module_& module);

}  // namespace polycast::python
