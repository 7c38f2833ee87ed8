#include "kernels/parts.h"

#include <ATen/ops/_foreach_copy.h>
#include <c10/util/strides.h>

#include <algorithm>

namespace polycast::multi_tensor {

std::vector<at::Tensor> Part::of(at::TensorList list) const {
  std::vector<at::Tensor> tensors;
  tensors.reserve(list.empty() ? 0 : places.size());
  for (size_t index = 0; index < places.size() && !list.empty(); ++index) {
    tensors.push_back(list[places[index]]);
  }
  return tensors;
}

void add_place(
    std::vector<Part>& parts,
    size_t place,
    const at::Tensor& tensor,
    at::ScalarType type,
    bool is_joined,
    int64_t limit) {
  // Sizes that are symbols have no number to be added up.
  const bool is_symbolic = tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  const int64_t numel = is_symbolic ? no_limit : tensor.numel();
  const auto has_room = [&](const Part& part) {
    return part.type == type && part.is_joined == is_joined && numel <= limit && part.numel <= limit - numel;
  };
  const auto part = std::find_if(parts.rbegin(), parts.rend(), has_room);
  if (part == parts.rend()) {
    parts.push_back({type, is_joined, {place}, numel});
  } else {
    part->places.push_back(place);
    part->numel += numel;
  }
}

std::vector<at::Tensor> split_like(at::TensorList models, const at::Tensor& joined) {
  std::vector<at::Tensor> views;
  views.reserve(models.size());
  int64_t offset = 0;
  for (const at::Tensor& model : models) {
    const auto strides =
        model.is_non_overlapping_and_dense() ? c10::DimVector(model.strides()) : c10::contiguous_strides(model.sizes());
    views.push_back(joined.as_strided(model.sizes(), strides, offset));
    offset += model.numel();
  }
  return views;
}

at::Tensor join_like(at::TensorList models, at::TensorList tensors, at::ScalarType type) {
  int64_t numel = 0;
  for (const at::Tensor& model : models) {
    numel += model.numel();
  }
  at::Tensor joined = tensors[0].new_empty({numel}, type);
  at::_foreach_copy_(split_like(models, joined), tensors);
  return joined;
}

std::vector<at::Tensor> pieces_of(const at::Tensor& tensor) {
  const bool is_plain = !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
                        !tensor.key_set().has(c10::DispatchKey::Python) && tensor.is_contiguous();
  if (!is_plain || tensor.numel() <= joined_limit) {
    return {tensor};
  }
  return tensor.view({-1}).split(joined_limit);
}

}  // namespace polycast::multi_tensor
