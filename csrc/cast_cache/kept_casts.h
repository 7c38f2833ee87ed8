// The table of kept casts, which outlive regions.
//
// The lock is not held while a cast is created or destroyed, because either can run code that calls this table.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "cast_cache/entry.h"

namespace polycast::cast_cache {

class KeptCasts {
 public:
  // Returns true if there is no tensor whose casts are kept.
  bool empty() const {
    return size_.load(std::memory_order_relaxed) == 0;
  }

  void keep(const at::Tensor& tensor);

  // Drops the casts of the tensor at an address. With `release`, later casts of the tensor are not kept either.
  void forget(const void* address, bool release);

  // The result of a lookup. If no cast is found, `cast` is undefined. If the tensor's casts are kept, `missing` is then
  // a snapshot for a new entry. The snapshot is made before the cast, because another thread may write during the cast.
  struct Found {
    std::optional<TensorSnapshot> missing;
    at::Tensor cast;
  };
  Found find(const at::Tensor& tensor, const Kind& kind);

  // Marks a tensor if its casts are kept: see Note [How are assignments to `.data` noticed?].
  void mark_again(const at::Tensor& tensor);

  // Stores a cast, if the casts of the tensor are still kept.
  void insert(const at::Tensor& tensor, Entry entry);

  void clear();

  std::mutex mutex;  // `process_state` locks it during a fork.

 private:
  struct Kept {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;  // This reference reserves the address.
    Entries entries;
  };

  std::unordered_map<const void*, Kept> sources_;
  std::atomic<size_t> size_{0};  // The size of `sources_`, for readers without the lock.
};

}  // namespace polycast::cast_cache
