#include "cast_cache/tensor_snapshot.h"

#include <ATen/CachedTensorUtils.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <torch/csrc/autograd/variable.h>

namespace polycast::cast_cache {

namespace {

constexpr c10::DispatchKeySet plain_keys = c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
                                           c10::DispatchKeySet(
                                               {c10::DispatchKey::Dense,
                                                c10::DispatchKey::ADInplaceOrView,
                                                c10::DispatchKey::BackendSelect,
                                                c10::DispatchKey::Functionalize}) |
                                           c10::DispatchKeySet(c10::DispatchKeySet::RAW, c10::full_backend_mask);

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

// Returns the functionalization wrapper of a tensor, or `nullptr` if there is none.
const at::FunctionalTensorWrapper* wrapper_of(const at::Tensor& tensor) {
  return tensor.key_set().has(c10::DispatchKey::Functionalize)
             ? at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)
             : nullptr;
}

// Returns the tensor that has the values: the tensor itself, or the tensor that a functional tensor wraps.
const at::Tensor& inner(const at::Tensor& tensor) {
  const at::FunctionalTensorWrapper* const wrapper = wrapper_of(tensor);
  return wrapper == nullptr ? tensor : wrapper->value();
}

// Returns the number of writes to a functional tensor's storage through any alias, or 0 for any other tensor.
uint64_t mutations_of(const at::Tensor& tensor) {
  const at::FunctionalTensorWrapper* const wrapper = wrapper_of(tensor);
  return wrapper == nullptr ? 0 : wrapper->mutation_counter();
}

// Note [How are assignments to `.data` noticed?]
// `weight.data += delta` writes through a temporary tensor with a version counter of its own, and then assigns that
// tensor to `weight.data`. Afterwards the weight has the same storage and the same version as before.
//
// We therefore attach a mark to a weight with kept casts, as its `BackendMeta`. An assignment to `.data` clones the
// `BackendMeta` of the assigned tensor. Each clone of a mark is a new object, so the weight then has another mark.
//
// A tensor that already has a `BackendMeta`, from its backend, is not marked. Assignment of a tensor without a mark,
// such as `weight.data = torch.ones(2, 2)`, removes the weight's mark. The cache therefore marks the weight again
// before each new cast.
struct DataAssignmentMark final : c10::BackendMeta {
  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>& /*self*/) const override {
    return c10::make_intrusive<DataAssignmentMark>();
  }
};

}  // namespace

void mark(const at::Tensor& tensor) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (impl->get_backend_meta() == nullptr) {
    impl->set_backend_meta(c10::make_intrusive<DataAssignmentMark>());
  }
}

TensorSnapshot::TensorSnapshot(const at::Tensor& tensor)
    : tensor_(tensor.getIntrusivePtr()),
      inner_(inner(tensor).getIntrusivePtr()),
      storage_(tensor.unsafeGetTensorImpl()->unsafe_storage().getWeakStorageImpl()),
      mark_(tensor.unsafeGetTensorImpl()->get_backend_meta_intrusive_ptr()),
      data_(tensor.unsafeGetTensorImpl()->unsafe_storage().data()),
      offset_(tensor.storage_offset()),
      version_(version_of(tensor)),
      mutations_(mutations_of(tensor)),
      type_(tensor.scalar_type()),
      sizes_(tensor.sizes()),
      strides_(tensor.strides()) {}

bool TensorSnapshot::is(const at::Tensor& tensor) const {
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  return tensor_._unsafe_get_target() == tensor.unsafeGetTensorImpl() &&
         inner_._unsafe_get_target() == inner(tensor).unsafeGetTensorImpl() &&
         storage_._unsafe_get_target() == storage.unsafeGetStorageImpl() &&
         mark_.get() == tensor.unsafeGetTensorImpl()->get_backend_meta() && data_ == storage.data() &&
         offset_ == tensor.storage_offset() && version_ == version_of(tensor) && mutations_ == mutations_of(tensor) &&
         type_ == tensor.scalar_type() && sizes_ == tensor.sizes() && strides_ == tensor.strides();
}

bool is_plain(const at::Tensor& tensor) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  // Inside functionalization `has_storage()` is true for tensors whose storage is `nullptr`.
  return (impl->key_set().raw_repr() & ~plain_keys.raw_repr()) == 0 && !impl->has_symbolic_sizes_strides() &&
         impl->has_storage() && impl->unsafe_storage();
}

const char* obstacle(const at::Tensor& tensor) {
  if (!is_plain(tensor)) {
    return "is a tensor subclass or not strided; pass a module with plain, strided tensors";
  }
  if (tensor.is_inference()) {
    return "is an inference tensor without a version counter; create it outside of torch.inference_mode()";
  }
  // Each view or result of an op is a new tensor, so a cast of it would never be found again.
  const torch::autograd::AutogradMeta* const meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta != nullptr && (meta->grad_fn_ || meta->is_view_ || meta->fw_grad_)) {
    return "is a view, a dual tensor or the result of an op; replace it with a detached clone";
  }
  return at::caching::is_cached_tensor(tensor) ? "is an output of a CUDA graph; replace it with a clone" : nullptr;
}

}  // namespace polycast::cast_cache
