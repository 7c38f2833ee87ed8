// What the cast cache knows tensors by.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/DimVector.h>
#include <c10/util/intrusive_ptr.h>

#include <limits>
#include <optional>

namespace polycast::autocast {

// What sort of cast: its type, whether it has gradient history, the stream that it was made on, and the thread whose
// regions may use it, 0 for every thread's.
struct CastKind {
  at::ScalarType to;
  bool history;
  int64_t stream;
  uint64_t thread;

  bool serves(const CastKind& wanted) const {
    return to == wanted.to && history == wanted.history && stream == wanted.stream &&
           (thread == 0 || thread == wanted.thread);
  }

  // A byte limit covers what is kept beyond regions.
  bool bounded() const {
    return thread == 0;
  }
};

struct TensorIdentity {
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor;

  bool expired() const {
    return tensor.expired();
  }
};

// The state of a tensor: everything whose change can change its values or what they mean.
struct TensorState {
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> inner;  // below a functional wrapper
  const void* data;
  int64_t offset;
  uint32_t version;
  uint64_t mutations;
  c10::DispatchKeySet keys;
  at::ScalarType type;
  at::DimVector sizes;
  at::DimVector strides;

  bool expired() const {
    return tensor.expired() || storage.expired();
  }
};

// A living tensor, read but not held.
class TensorView {
 public:
  explicit TensorView(const at::Tensor& tensor);

  const void* address() const {
    return impl_;
  }
  size_t device() const {
    return static_cast<size_t>(impl_->device_type());
  }
  TensorIdentity identity() const;
  TensorState hold() const;
  bool same(const TensorState& state) const;

 private:
  const at::Tensor& tensor_;
  c10::TensorImpl* impl_;
  c10::StorageImpl* storage_;
  c10::TensorImpl* inner_ = nullptr;
  uint64_t mutations_ = 0;  // of a functional wrapper's storage, through any alias
};

// A cast, as it was made.
class KeptCast {
 public:
  explicit KeptCast(at::Tensor tensor);

  const at::Tensor& tensor() const {
    return tensor_;
  }
  size_t bytes() const;

  // An op may have handed the cast itself to the user, who may have written to it since.
  bool intact() const;

 private:
  at::Tensor tensor_;
  uint32_t version_;
  bool requires_grad_;
};

struct TensorTraits {
  using Kind = CastKind;
  using View = TensorView;
  using Source = TensorState;
  using Identity = TensorIdentity;
  using Cast = KeptCast;
  static constexpr size_t devices = static_cast<size_t>(c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES);
};

// Why the state of the tensor cannot be told from outside, or null where it can.
const char* opaque(const at::Tensor& tensor);

// Whether a cast made now is a plain tensor that stands for the source later on, and the other way around: no mode, no
// transform and no tracer looks at what runs.
bool unobserved();

}  // namespace polycast::autocast
