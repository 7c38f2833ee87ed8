// Drives the table of kept casts from many threads, to be built with -fsanitize=thread.
//
// A source is a tensor of one number, whose version is the number; its cast is twice the number. A cast that is handed
// out for a source in another state than it was made from shows as a wrong number. Destroying a cast uses the table
// again, as a tensor's own deleter can.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "cast_cache/kept.h"

using namespace polycast::cast_cache;

namespace {

constexpr size_t thread_count = 8;
constexpr size_t source_count = 24;
constexpr int rounds = 20000;

KeptCasts table;
std::atomic<int> wrong{0};
std::atomic<int> hits{0};
std::atomic<int> casts{0};  // that are alive

int64_t number_of(const at::Tensor& source) {
  return source.unsafeGetTensorImpl()->version_counter().current_version();
}

at::Tensor cast_of(const at::Tensor& source) {
  ++casts;
  const auto forget = [](void* pointer) {
    table.forget(pointer, false);
    --casts;
    delete static_cast<int64_t*>(pointer);
  };
  return at::from_blob(new int64_t(2 * number_of(source)), {1}, forget, at::kLong);
}

void use(const at::Tensor& tensor, at::ScalarType to) {
  const Kind kind{to, Mode::plain, 0};
  const int64_t before = number_of(tensor);
  KeptCasts::Found found = table.find(tensor, kind);
  hits += found.cast.defined() ? 1 : 0;
  const at::Tensor cast = found.cast.defined() ? found.cast : cast_of(tensor);
  if (found.missing) {
    table.insert(tensor, Entry(kind, *std::move(found.missing), cast));
  }
  const int64_t number = *cast.const_data_ptr<int64_t>() / 2;
  wrong += before <= number && number <= number_of(tensor) ? 0 : 1;
}

void work(uint64_t random, const std::vector<at::Tensor>& shared) {
  for (int round = 0; round < rounds; ++round) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const at::Tensor& tensor = shared[(random >> 33) % source_count];
    if (round % 5 == 0) {
      table.keep(tensor);
    }
    use(tensor, round % 2 == 0 ? at::kHalf : at::kBFloat16);
    const uint64_t act = (random >> 20) % 16;
    if (act == 0) {
      tensor.unsafeGetTensorImpl()->bump_version();
    } else if (act < 3) {
      table.forget(tensor.unsafeGetTensorImpl(), act == 1);
    } else if (act == 3) {
      table.clear();
    }
  }
}

}  // namespace

int main() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> shared;
  for (size_t index = 0; index < source_count; ++index) {
    shared.push_back(at::empty({1}));
  }
  std::vector<std::thread> threads;
  for (size_t thread = 1; thread <= thread_count; ++thread) {
    threads.emplace_back(work, thread, std::cref(shared));
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const at::Tensor& tensor : shared) {
    table.forget(tensor.unsafeGetTensorImpl(), true);
  }
  const bool right = wrong == 0 && casts == 0 && table.empty() && hits > 0;
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
