// Bindings of the cast cache, for polycast/cast_cache.py.
#include "bindings/bindings.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <string>

#include "cast_cache/cache.h"
#include "cast_cache/kept_casts.h"
#include "cast_cache/tensor_snapshot.h"

namespace py = pybind11;

namespace polycast::bindings {

namespace {

using cast_cache::kept_casts;

// Python has a tensor's address as Tensor._cdata.
void forget(uintptr_t address, bool release) {
  kept_casts().forget(reinterpret_cast<const void*>(address), release);
}

// The probes are Python functions. They are called only while casts are kept.
std::array<py::object*, cast_cache::device_types> probes{};

bool ask_probe(c10::DeviceType device) {
  const py::gil_scoped_acquire gil;
  return py::cast<bool>((*probes[static_cast<size_t>(device)])());
}

void set_probe(const std::string& device, const py::object& probe) {
  const c10::DeviceType type = c10::Device(device).type();
  cast_cache::set_recording_probe(type, nullptr);
  if (!probe.is_none()) {
    // A probe is never freed, because another thread may be calling it.
    probes[static_cast<size_t>(type)] = new py::object(probe);
    cast_cache::set_recording_probe(type, &ask_probe);
  }
}

}  // namespace

void bind_cast_cache(py::module_& module) {
  module.def("cast_obstacle", &cast_cache::obstacle, py::arg("tensor"));
  module.def("keep_casts", [](const at::Tensor& tensor) { kept_casts().keep(tensor); }, py::arg("tensor"));
  module.def("forget_casts", &forget, py::arg("address"), py::arg("release"));
  module.def("clear_casts", [] { kept_casts().clear(); });
  module.def("set_recording_probe", &set_probe, py::arg("device"), py::arg("probe"));
}

}  // namespace polycast::bindings
