#include "autocast/cast_source.h"

#include <ATen/CachedTensorUtils.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/variable.h>

namespace polycast::autocast {

namespace {

constexpr c10::DispatchKeySet plain_keys =
    c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Dense, c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::BackendSelect}) |
    c10::DispatchKeySet(c10::DispatchKeySet::RAW, c10::full_backend_mask);
constexpr c10::DispatchKeySet functional_keys = plain_keys | c10::DispatchKeySet(c10::DispatchKey::Functionalize);

bool is_subset(c10::DispatchKeySet keys, c10::DispatchKeySet of) {
  return (keys.raw_repr() & ~of.raw_repr()) == 0;
}

const at::FunctionalTensorWrapper* functional_wrapper(const at::Tensor& tensor) {
  return tensor.key_set().has(c10::DispatchKey::Functionalize)
             ? at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)
             : nullptr;
}

}  // namespace

TensorView::TensorView(const at::Tensor& tensor)
    : tensor_(tensor), impl_(tensor.unsafeGetTensorImpl()), storage_(impl_->unsafe_storage().unsafeGetStorageImpl()) {
  if (const at::FunctionalTensorWrapper* const wrapper = functional_wrapper(tensor)) {
    inner_ = wrapper->value().unsafeGetTensorImpl();
    mutations_ = wrapper->mutation_counter();
  }
}

TensorIdentity TensorView::identity() const {
  return {c10::weak_intrusive_ptr<c10::TensorImpl>(tensor_.getIntrusivePtr())};
}

TensorState TensorView::hold() const {
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> inner;
  if (const at::FunctionalTensorWrapper* const wrapper = functional_wrapper(tensor_)) {
    inner.emplace(wrapper->value().getIntrusivePtr());
  }
  return {
      identity().tensor,
      impl_->unsafe_storage().getWeakStorageImpl(),
      std::move(inner),
      storage_->data(),
      tensor_.storage_offset(),
      impl_->version_counter().current_version(),
      mutations_,
      impl_->key_set(),
      tensor_.scalar_type(),
      at::DimVector(tensor_.sizes()),
      at::DimVector(tensor_.strides())};
}

bool TensorView::same(const TensorState& state) const {
  // The addresses are those of the objects themselves: what is held weakly keeps its address to itself.
  return state.tensor._unsafe_get_target() == impl_ && state.storage._unsafe_get_target() == storage_ &&
         (state.inner.has_value() ? state.inner->_unsafe_get_target() : nullptr) == inner_ &&
         state.data == storage_->data() && state.offset == tensor_.storage_offset() &&
         state.version == impl_->version_counter().current_version() && state.mutations == mutations_ &&
         state.keys == impl_->key_set() && state.type == tensor_.scalar_type() && state.sizes == tensor_.sizes() &&
         state.strides == tensor_.strides();
}

KeptCast::KeptCast(at::Tensor tensor)
    : tensor_(std::move(tensor)),
      version_(tensor_.unsafeGetTensorImpl()->version_counter().current_version()),
      requires_grad_(tensor_.requires_grad()) {}

size_t KeptCast::bytes() const {
  return tensor_.nbytes();
}

bool KeptCast::intact() const {
  return tensor_.unsafeGetTensorImpl()->version_counter().current_version() == version_ &&
         tensor_.requires_grad() == requires_grad_;
}

const char* opaque(const at::Tensor& tensor) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (!is_subset(impl->key_set(), functional_keys) || !impl->has_storage() || !impl->unsafe_storage() ||
      impl->has_symbolic_sizes_strides()) {
    return "is a tensor subclass, a wrapper or not strided";
  }
  if (impl->is_inference()) {
    return "is an inference tensor, which counts no versions";
  }
  // A view of a tensor is a new tensor each time, and one that computes its version with its base.
  const torch::autograd::AutogradMeta* const meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta != nullptr && (meta->grad_fn_ || meta->is_view_ || meta->fw_grad_)) {
    return "is no leaf, a view or a dual tensor";
  }
  return at::caching::is_cached_tensor(tensor) ? "belongs to a recorded graph" : nullptr;
}

bool unobserved() {
  // Functorch's transforms, the tracer and most modes are keys that the thread includes.
  return is_subset(c10::impl::tls_local_dispatch_key_set().included_, c10::default_included_set) &&
         !c10::impl::TorchDispatchModeTLS::any_modes_set();
}

}  // namespace polycast::autocast
