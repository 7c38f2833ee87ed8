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
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cast_cache/kept_casts.h"

using namespace polycast::cast_cache;

namespace {

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

void work(unsigned seed, const std::vector<at::Tensor>& shared) {
  std::minstd_rand random(seed);
  for (int round = 0; round < 20000; ++round) {
    const at::Tensor& tensor = shared[random() % shared.size()];
    if (round % 5 == 0) {
      table.keep(tensor);
    }
    use(tensor, round % 2 == 0 ? at::kHalf : at::kBFloat16);
    switch (random() % 16) {
      case 0:
        tensor.unsafeGetTensorImpl()->bump_version();
        break;
      case 1:
        table.forget(tensor.unsafeGetTensorImpl(), true);
        break;
      case 2:
        table.forget(tensor.unsafeGetTensorImpl(), false);
        break;
      case 3:
        table.clear();
        break;
    }
  }
}

}  // namespace

int main() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> shared(24);
  for (at::Tensor& tensor : shared) {
    tensor = at::empty({1});
  }
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    threads.emplace_back(work, seed, std::cref(shared));
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
