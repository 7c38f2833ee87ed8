// PyTorch's interfaces of an accelerator: memory, current device, generators, streams, events and hooks.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <utility>

#include "device.h"

namespace mimic {
namespace {

thread_local c10::DeviceIndex current = 0;

// Sets the current index and returns the previous one. A negative index changes nothing.
c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  TORCH_CHECK(index < kCount, "the device index is ", int(index), ", and there are ", int(kCount), " devices");
  return std::exchange(current, index < 0 ? current : index);
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = c10::alloc_cpu(bytes);
    return {data, data, &c10::free_cpu, c10::Device(kType, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &c10::free_cpu;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

Memory memory;
REGISTER_ALLOCATOR(kType, &memory);

// --- random numbers ---

// A generator whose state is in a CPU generator, because the CPU draws the numbers.
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

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<Generator>(index, at::detail::createCPUGenerator());
}

// --- streams and hooks ---

// The device runs each op before the call returns, so each index has one stream, and events need no work.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kType;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kType, exchange_device(device.index())};
  }
  c10::Device getDevice() const override {
    return {kType, current};
  }
  void setDevice(c10::Device device) const override {
    exchange_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return kCount;
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, {kType, device.has_index() ? device.index() : current});
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return getStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return getStream(stream.device());
  }
  void synchronizeDevice(c10::DeviceIndex) const override {}
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return kCount;
  }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    exchange_device(index);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current;
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return exchange_device(index);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchange_device(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index < 0 ? current : index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return new_generator(index < 0 ? current : index);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    at::native::resize_bytes_cpu(storage.unsafeGetStorageImpl(), bytes);  // This uses the storage's allocator.
  }
};

// PyTorch stores the pointer until the process ends and never frees it.
[[maybe_unused]] const bool hooked = (at::RegisterPrivateUse1HooksInterface(new Hooks()), true);

}  // namespace

c10::DeviceIndex current_device() {
  return current;
}

c10::Allocator* allocator() {
  return &memory;
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

// The functions that the device's Python module calls.
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("device_count", [] { return int(mimic::kCount); });
  module.def("current_device", [] { return int(mimic::current_device()); });
  module.def("exchange_device", [](int index) { return int(mimic::exchange_device(c10::DeviceIndex(index))); });
  module.def("default_generator", [](int index) { return mimic::default_generator(c10::DeviceIndex(index)); });
  module.def("raise_at_syncs", mimic::raise_at_syncs);
}
