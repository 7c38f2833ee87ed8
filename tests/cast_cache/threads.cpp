// Drives the core of the cast cache from many threads, with numbers for tensors, to be built with -fsanitize=thread.
//
// A source is a number that changes with its version; its cast is twice the number. A cast that is handed out for a
// source in another state than it was made from shows as a wrong number. Destroying a cast uses the table again, as a
// tensor's own deleter can.
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "autocast/cast_cache_core.h"

using namespace polycast::autocast;

namespace {

constexpr int thread_count = 8;
constexpr int source_count = 24;
constexpr int rounds = 3000;

struct Number {
  std::atomic<int64_t> value{0};  // counts as the version too
};

using Reference = std::shared_ptr<Number>;

struct Traits {
  struct Kind {
    int to;
    uint64_t thread;
    bool serves(const Kind& wanted) const {
      return to == wanted.to && (thread == 0 || thread == wanted.thread);
    }
    bool bounded() const {
      return to != 0;
    }
  };
  struct Identity {
    std::weak_ptr<Number> number;
    bool expired() const {
      return number.expired();
    }
  };
  struct Source : Identity {
    int64_t version;
  };
  struct View {
    const Reference& number;
    const void* address() const {
      return number.get();
    }
    size_t device() const {
      return 0;
    }
    Identity identity() const {
      return {number};
    }
    Source hold() const {
      return {{number}, number->value.load()};
    }
    bool same(const Source& source) const {
      return source.version == number->value.load() && source.number.lock() == number;
    }
  };
  struct Cast {
    std::shared_ptr<const int64_t> number;
    size_t bytes() const {
      return 8;
    }
    bool intact() const {
      return true;
    }
  };
  static constexpr size_t devices = 1;
};

CastTable<Traits> table;
std::atomic<uint64_t> epoch{1};
std::atomic<int> wrong{0};

Traits::Cast cast_of(const Reference& source) {
  return {std::shared_ptr<const int64_t>(new int64_t(2 * source->value.load()), [](const int64_t* number) {
    table.name_of(number);
    delete number;
  })};
}

void use(const Reference& number, int to, uint64_t thread, bool keep) {
  const Traits::View view{number};
  const int64_t before = number->value.load();
  Traits::Kind kind{to, thread};
  const uint64_t now = epoch.load();
  Found<Traits> found = table.find(view, kind, now);
  if (!found.cast.has_value()) {
    kind.thread = found.kept ? 0 : thread;
    Traits::Source state = view.hold();
    found.cast = table.insert(view, std::move(state), kind, cast_of(number), found.kept ? no_epoch : now);
  }
  const int64_t version = *found.cast->number / 2;
  wrong += before <= version && version <= number->value.load() ? 0 : 1;
  if (keep) {
    table.keep(view, "number");
  }
}

void work(uint64_t thread, std::vector<Reference>& shared) {
  uint64_t random = thread;
  for (int round = 0; round < rounds; ++round) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const Reference& number = shared[(random >> 33) % source_count];
    use(number, round % 2, thread, round % 5 == 0);
    const Reference passing = std::make_shared<Number>();
    use(passing, 1, thread, false);
    switch ((random >> 20) % 64) {
      case 0: number->value += 1; break;
      case 1: epoch += 1; break;
      case 2: table.sweep(epoch); break;
      case 3: table.forget(number.get(), true); break;
      case 4: table.clear(); break;
      case 5: table.limit(random % 2 == 0 ? 128 : CastTable<Traits>::no_limit); break;
      case 6: wrong += table.tallies()[0].entries >= 0 ? 0 : 1; break;
      default: break;
    }
  }
}

}  // namespace

int main() {
  std::vector<Reference> shared;
  for (int index = 0; index < source_count; ++index) {
    shared.push_back(std::make_shared<Number>());
  }
  std::vector<std::thread> threads;
  for (uint64_t thread = 1; thread <= thread_count; ++thread) {
    threads.emplace_back(work, thread, std::ref(shared));
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  shared.clear();
  table.sweep(++epoch);
  const Tally tally = table.tallies()[0];
  const bool right = wrong == 0 && tally.entries == 0 && tally.bytes == 0 && table.empty() && tally.hits > 0;
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
