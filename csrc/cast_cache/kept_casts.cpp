#include "cast_cache/kept_casts.h"

#include <utility>

namespace polycast::cast_cache {

void KeptCasts::keep(const at::Tensor& tensor) {
  c10::weak_intrusive_ptr<c10::TensorImpl> held(tensor.getIntrusivePtr());
  const std::lock_guard<std::mutex> lock(mutex);
  mark(tensor);  // An earlier cast of a region has a snapshot without the mark, so it is not used again.
  sources_.try_emplace(tensor.unsafeGetTensorImpl(), Kept{std::move(held), {}});
  size_ = sources_.size();
}

void KeptCasts::forget(const void* address, bool release) {
  Entries dropped;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto source = sources_.find(address);
  if (source == sources_.end()) {
    return;
  }
  dropped.swap(source->second.entries);
  if (release) {
    sources_.erase(source);
    size_ = sources_.size();
  }
}

KeptCasts::Found KeptCasts::find(const at::Tensor& tensor, const Kind& kind) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto source = sources_.find(tensor.unsafeGetTensorImpl());
  if (source == sources_.end()) {
    return {};
  }
  const Entry* const entry = cast_cache::find(source->second.entries, tensor, kind);
  if (entry == nullptr) {
    mark(tensor);  // An assignment to `.data` replaces or removes the mark.
    return {TensorSnapshot(tensor), {}};
  }
  return {std::nullopt, entry->cast};
}

void KeptCasts::mark_again(const at::Tensor& tensor) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (sources_.count(tensor.unsafeGetTensorImpl()) != 0) {
    mark(tensor);
  }
}

void KeptCasts::insert(const at::Tensor& tensor, Entry entry) {
  std::optional<Entry> dropped;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto source = sources_.find(tensor.unsafeGetTensorImpl());
  if (source != sources_.end()) {
    dropped = put(source->second.entries, std::move(entry));
  }
}

void KeptCasts::clear() {
  std::vector<Entries> dropped;
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto& [address, source] : sources_) {
    dropped.emplace_back().swap(source.entries);
  }
}

}  // namespace polycast::cast_cache
