#include "cast_cache/region.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

namespace polycast::cast_cache {

namespace {

// Makes PyTorch's cache own these casts. Returns false for the autocast dtype float32, which PyTorch does not cache.
bool hand_over(c10::intrusive_ptr<RegionCasts> casts) {
  const c10::InferenceMode normal(false);  // Newer releases of PyTorch cache nothing in inference mode.
  const at::AutoDispatchBelowADInplaceOrView plain;
  const at::DisableRecordFunctionGuard unseen;  // The user did not request this cast, so profilers do not show it.
  const c10::impl::ExcludeDispatchKeyGuard no_mode(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  // PyTorch caches casts of leaves that require grad. Each thread has its own leaf, because it has its own casts.
  thread_local const at::Tensor leaf = at::empty({0}, at::kFloat).set_requires_grad(true);
  const at::ScalarType to = at::autocast::get_autocast_dtype(at::kCPU);
  if (to == leaf.scalar_type()) {
    return false;
  }
  const at::Tensor cast = at::autocast::cached_cast(to, leaf, at::kCPU);
  cast.unsafeGetTensorImpl()->set_backend_meta(std::move(casts));
  return true;
}

}  // namespace

c10::intrusive_ptr<RegionCasts> region_casts() {
  thread_local c10::weak_intrusive_ptr<RegionCasts> current{c10::intrusive_ptr<RegionCasts>()};
  c10::intrusive_ptr<RegionCasts> casts = current.lock();
  if (!casts) {
    casts = c10::make_intrusive<RegionCasts>();
    if (!hand_over(casts)) {
      return {};
    }
    current = c10::weak_intrusive_ptr<RegionCasts>(casts);
  }
  return casts;
}

}  // namespace polycast::cast_cache
