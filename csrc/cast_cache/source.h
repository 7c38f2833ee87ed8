// The identity and state of a cast's source.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/DimVector.h>
#include <c10/util/intrusive_ptr.h>

namespace polycast::cast_cache {

// Everything of a tensor whose change can change its values or what they mean. The tensor and its storage are held
// weakly, which keeps their addresses from coming back as another's.
class Source {
 public:
  // Takes a tensor that is no obstacle.
  explicit Source(const at::Tensor& tensor);

  // Whether the tensor is this one, unchanged.
  bool is(const at::Tensor& tensor) const;

 private:
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor_;
  c10::weak_intrusive_ptr<c10::TensorImpl> inner_;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  c10::intrusive_ptr<c10::BackendMeta> mark_;
  const void* data_;
  int64_t offset_;
  uint32_t version_;
  uint64_t mutations_;
  at::ScalarType type_;
  at::DimVector sizes_;
  at::DimVector strides_;
};

// Marks a tensor, so that a new `.data` is seen even where it is the former one, written to: `weight.data += delta`.
// It does nothing to a marked tensor. To mark is a write to the tensor's metadata.
void mark(const at::Tensor& tensor);

// Whether a tensor is strided, in memory of its own, and no subclass, wrapper or symbol.
bool is_plain(const at::Tensor& tensor);

// Why the state of a tensor cannot be told, or null where it can.
const char* obstacle(const at::Tensor& tensor);

}  // namespace polycast::cast_cache
