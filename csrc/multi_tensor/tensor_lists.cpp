#include "multi_tensor/tensor_lists.h"

#include <ATen/ops/empty_like.h>

namespace polycast::multi_tensor {

at::Tensor copy_for(const at::Tensor& model, const at::Tensor& tensor) {
  return at::empty_like(model, model.options().dtype(tensor.scalar_type())).copy_(tensor);
}

}  // namespace polycast::multi_tensor
