// Bindings of the cast cache, for `polycast/cast_cache.py`.
#include "bindings/bindings.h"

#include <ATen/core/Tensor.h>
#include <pybind11/functional.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>

#include "cast_cache/cache.h"
#include "cast_cache/kept_casts.h"
#include "cast_cache/tensor_snapshot.h"

namespace py = pybind11;

namespace polycast::bindings {

namespace {

using cast_cache::kept_casts;

// Python has a tensor's address as `Tensor._cdata`.
void forget(uintptr_t address, bool release) {
  kept_casts().forget(reinterpret_cast<const void*>(address), release);
}

void set_probe(const std::string& device, cast_cache::RecordingProbe probe) {
  cast_cache::set_recording_probe(c10::Device(device).type(), std::move(probe));
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
