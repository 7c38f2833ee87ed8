#include "multi_tensor/items.h"

#include <ATen/ops/empty_like.h>

#include "multi_tensor/lists.h"

namespace polycast::multi_tensor {

bool walks_with(const at::Tensor& model, const at::Tensor& tensor) {
  return same_order(model, tensor) && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor copy_for(const at::Tensor& model, const at::Tensor& tensor) {
  return at::empty_like(model, model.options().dtype(tensor.scalar_type())).copy_(tensor);
}

at::ScalarType real_type(const at::Tensor& tensor) {
  return tensor.is_complex() ? c10::toRealValueType(tensor.scalar_type()) : tensor.scalar_type();
}

}  // namespace polycast::multi_tensor
