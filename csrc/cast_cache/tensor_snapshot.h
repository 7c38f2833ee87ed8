// The identity and state of a cast's source.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/DimVector.h>
#include <c10/util/intrusive_ptr.h>

namespace polycast::cast_cache {

// A snapshot of the state that changes with a tensor's values or their meaning. Weak references to the tensor and its
// storage reserve their addresses.
class TensorSnapshot {
 public:
  // The tensor must have no `obstacle()`.
  explicit TensorSnapshot(const at::Tensor& tensor);

  // Returns whether this is a snapshot of the tensor, and the tensor is unchanged.
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

// Marks a tensor that has no `BackendMeta`, so that a snapshot notices every assignment to the tensor's `.data`. This
// writes the tensor's metadata. See Note [How are assignments to `.data` noticed?].
void mark(const at::Tensor& tensor);

// Returns whether a tensor is strided, has a storage and concrete sizes, and is not quantized, conjugated, negated or a
// subclass. Of the wrappers, only functionalization's is plain.
bool is_plain(const at::Tensor& tensor);

// Returns why no cast of a tensor is reused, or `nullptr`. The text continues a sentence whose subject is the tensor.
const char* obstacle(const at::Tensor& tensor);

}  // namespace polycast::cast_cache
