// Random generators.

#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <utility>

#include "device.h"

namespace mimic {
namespace {

// Its state is that of a generator of the host, since the host draws the numbers.
struct Generator final : c10::GeneratorImpl {
  Generator(c10::DeviceIndex index, at::Generator host)
      : c10::GeneratorImpl({kType, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), host(std::move(host)) {}

  void set_current_seed(uint64_t seed) override {
    host.set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override {
    host.set_offset(offset);
  }
  uint64_t get_offset() const override {
    return host.get_offset();
  }
  uint64_t current_seed() const override {
    return host.current_seed();
  }
  uint64_t seed() override {
    return host.seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    host.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host.unsafeGetGeneratorImpl()->get_state();
  }
  Generator* clone_impl() const override {
    return new Generator(device().index(), host.clone());
  }

  at::Generator host;
};

}  // namespace

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<Generator>(index, at::detail::createCPUGenerator());
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static const std::array<at::Generator, kCount> generators{new_generator(0), new_generator(1)};
  return generators.at(index);
}

at::Generator host_generator(const at::Generator& generator) {
  TORCH_CHECK(
      generator.device().type() == kType, "the generator is on ", generator.device(), ", and the tensors are not");
  return static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->host;
}

}  // namespace mimic
