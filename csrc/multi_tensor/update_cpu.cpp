// update_scale_ on the CPU.
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "multi_tensor/op_arguments.h"
#include "multi_tensor/tensor_memory.h"
#include "op_library.h"

namespace polycast::scale {

namespace {

void update_scale_cpu(
    at::Tensor& scale,
    at::Tensor& growth_tracker,
    const at::Tensor& found_inf,
    double growth_factor,
    double backoff_factor,
    int64_t growth_interval,
    double min_scale,
    double max_scale) {
  multi_tensor::check_scalars({multi_tensor::OpArguments::of("update_scale_"), {}, {scale, growth_tracker, found_inf}});
  float& value = *scale.mutable_data_ptr<float>();
  int32_t& tracker = *growth_tracker.mutable_data_ptr<int32_t>();
  if (*found_inf.const_data_ptr<float>() != 0) {
    value = std::max(static_cast<float>(value * backoff_factor), static_cast<float>(min_scale));
    tracker = 0;
  } else if (++tracker == growth_interval) {
    const float grown = std::min(static_cast<float>(value * growth_factor), static_cast<float>(max_scale));
    value = std::isfinite(grown) ? grown : value;
    tracker = 0;
  }
  multi_tensor::raise_versions({scale, growth_tracker});
}

}  // namespace

void register_update(torch::Library& library) {
  library.impl("update_scale_", TORCH_FN(update_scale_cpu));
}

}  // namespace polycast::scale
