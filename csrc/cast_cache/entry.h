// A stored cast and its source.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cast_cache/tensor_snapshot.h"

namespace polycast::cast_cache {

// The mode in which a cast can be used. A cast with history is part of an autograd graph. An inference tensor is used
// in inference mode only.
enum class Mode : uint8_t { plain, history, inference };

// The key of a cast among the casts of one source. A cast is used on its own stream only, because work on two streams
// is not ordered.
struct Kind {
  at::ScalarType to;
  Mode mode;
  int64_t stream;

  bool operator==(const Kind& other) const {
    return to == other.to && mode == other.mode && stream == other.stream;
  }
};

class Entry {
 public:
  Entry(const Kind& kind, TensorSnapshot source, at::Tensor cast)
      : kind(kind), cast(std::move(cast)), snapshot_(std::move(source)), version_(version()) {}

  // An op may return the cast itself to the user, who may write to it, so the version of the cast is compared as well.
  bool serves(const at::Tensor& source, const Kind& wanted) const {
    return kind == wanted && snapshot_.is(source) && version_ == version();
  }

  Kind kind;
  at::Tensor cast;

 private:
  int64_t version() const {
    return cast.is_inference() ? 0 : cast._version();
  }

  TensorSnapshot snapshot_;
  int64_t version_;
};

// The casts of one source, at most one of each kind.
using Entries = std::vector<Entry>;

inline Entry* find(Entries& entries, const at::Tensor& source, const Kind& kind) {
  const auto serves = [&](const Entry& entry) { return entry.serves(source, kind); };
  const auto found = std::find_if(entries.begin(), entries.end(), serves);
  return found == entries.end() ? nullptr : &*found;
}

// Stores an entry, and returns the entry of the same kind that it replaces, if any.
inline std::optional<Entry> put(Entries& entries, Entry entry) {
  const auto same_kind = [&](const Entry& other) { return other.kind == entry.kind; };
  const auto place = std::find_if(entries.begin(), entries.end(), same_kind);
  if (place == entries.end()) {
    entries.push_back(std::move(entry));
    return std::nullopt;
  }
  std::swap(*place, entry);
  return entry;
}

}  // namespace polycast::cast_cache
