#include "cast_cache/kept.h"

#include <utility>

namespace polycast::cast_cache {

void KeptCasts::keep(const at::Tensor& tensor, std::string name) {
  c10::weak_intrusive_ptr<c10::TensorImpl> held(tensor.getIntrusivePtr());
  const std::lock_guard<std::mutex> lock(mutex_);
  mark(tensor);
  const auto place = sources_.try_emplace(tensor.unsafeGetTensorImpl(), Kept{std::move(held), {}, {}}).first;
  place->second.name = std::move(name);
  size_ = sources_.size();
}

void KeptCasts::forget(const void* address, bool release) {
  Entries dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
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
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto source = sources_.find(tensor.unsafeGetTensorImpl());
  if (source == sources_.end()) {
    return {};
  }
  Entry* const entry = cast_cache::find(source->second.entries, tensor, kind);
  if (entry == nullptr) {
    ++tally_of(tensor).misses;
    mark(tensor);  // an assignment to .data replaces the mark, perhaps by none
    return {Source(tensor), {}};
  }
  ++tally_of(tensor).hits;
  entry->used = ++uses_;
  return {std::nullopt, entry->cast};
}

void KeptCasts::mark_again(const at::Tensor& tensor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sources_.count(tensor.unsafeGetTensorImpl()) != 0) {
    mark(tensor);
  }
}

void KeptCasts::insert(const at::Tensor& tensor, Entry entry) {
  Entries dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto source = sources_.find(tensor.unsafeGetTensorImpl());
  if (source == sources_.end() || entry.cast.nbytes() > limit_) {
    return;
  }
  ++tally_of(tensor).stored;
  entry.used = ++uses_;
  if (std::optional<Entry> former = put(source->second.entries, std::move(entry))) {
    dropped.push_back(*std::move(former));
  }
  enforce_limit(dropped);
}

void KeptCasts::clear() {
  std::vector<Entries> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [address, source] : sources_) {
    dropped.emplace_back().swap(source.entries);
  }
}

void KeptCasts::limit(size_t bytes) {
  Entries dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  limit_ = bytes;
  enforce_limit(dropped);
}

std::string KeptCasts::name_of(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto source = sources_.find(address);
  return source == sources_.end() ? std::string() : source->second.name;
}

Tallies KeptCasts::tallies() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Tallies tallies = tallies_;
  for (const auto& [address, source] : sources_) {
    for (const Entry& entry : source.entries) {
      Tally& tally = tallies[static_cast<size_t>(entry.cast.device().type())];
      ++tally.entries;
      tally.bytes += static_cast<int64_t>(entry.cast.nbytes());
    }
  }
  return tallies;
}

void KeptCasts::enforce_limit(Entries& dropped) {
  while (limit_ != no_limit) {
    size_t bytes = 0;
    Entries* entries = nullptr;
    Entries::iterator oldest;
    for (auto& [address, source] : sources_) {
      for (auto entry = source.entries.begin(); entry != source.entries.end(); ++entry) {
        bytes += entry->cast.nbytes();
        if (entries == nullptr || entry->used < oldest->used) {
          entries = &source.entries;
          oldest = entry;
        }
      }
    }
    if (bytes <= limit_) {
      return;
    }
    dropped.push_back(std::move(*oldest));
    entries->erase(oldest);
  }
}

Tally& KeptCasts::tally_of(const at::Tensor& tensor) {
  return tallies_[static_cast<size_t>(tensor.device().type())];
}

}  // namespace polycast::cast_cache
