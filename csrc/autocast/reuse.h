// Finding out in which regions a source is cast more than once.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <vector>

namespace polycast::autocast {

// Without gradients every activation is a leaf like a weight, but is cast once. So a cast without history is stored
// when its source comes again in the same epoch. While an epoch is not watched nobody knows whether it is the same
// region that the source comes again in: then watching begins, and storing when it comes once more. Where regions end
// before that, they are watched ever more seldom.
class ReuseDetector {
 public:
  enum class Advice { cast, watch, store };

  // Notes that a source is cast. The epoch is no_epoch while it is not watched.
  Advice note(const c10::TensorImpl& source, at::ScalarType to, uint64_t epoch);

 private:
  // The storage is held weakly, so that its address cannot come back with another activation; the tensor is not, since
  // torch.utils.swap_tensors refuses a tensor that is.
  struct Mark {
    const void* source = nullptr;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(nullptr)};
    uint32_t version = 0;
    at::ScalarType to = at::ScalarType::Undefined;
    uint64_t epoch = 0;
    uint32_t times = 0;
  };

  // Returns the mark of a source and type; a new one takes the place of a dead source's, or of one among the others.
  Mark& mark_of(const void* address, at::ScalarType to);

  std::vector<Mark> marks_;
  size_t victim_ = 0;
  uint32_t patience_ = 2;
};

}  // namespace polycast::autocast
