// A stored cast, with what it is a cast of.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cast_cache/source.h"

namespace polycast::cast_cache {

// What a cast can be used for: one with history is part of autograd's graph, an inference tensor stays in its mode.
enum class Mode : uint8_t { plain, history, inference };

// What sort of cast. Work on two streams is not ordered, so a cast serves the stream that it was made on.
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
  Entry(const Kind& kind, Source source, at::Tensor cast)
      : kind(kind), cast(std::move(cast)), source_(std::move(source)), version_(version()) {}

  // An op may have handed the cast itself to the user, who may have written to it.
  bool serves(const at::Tensor& source, const Kind& wanted) const {
    return kind == wanted && source_.is(source) && version_ == version();
  }

  Kind kind;
  at::Tensor cast;
  uint64_t used = 0;  // when it was used last

 private:
  int64_t version() const {
    return cast.is_inference() ? 0 : cast._version();
  }

  Source source_;
  int64_t version_;
};

// The casts of one source: one of each kind.
using Entries = std::vector<Entry>;

inline Entry* find(Entries& entries, const at::Tensor& source, const Kind& kind) {
  const auto serves = [&](const Entry& entry) { return entry.serves(source, kind); };
  const auto found = std::find_if(entries.begin(), entries.end(), serves);
  return found == entries.end() ? nullptr : &*found;
}

// Returns what was in the place of the new entry, if anything.
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
