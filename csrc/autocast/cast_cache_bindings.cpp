#include "autocast/cast_cache_bindings.h"

#include <ATen/core/Tensor.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "autocast/cast_cache.h"
#include "autocast/region_end.h"

namespace py = pybind11;

namespace polycast::autocast {

namespace {

std::atomic<bool> sweep_is_pending{false};

int sweep_now(void* /*argument*/) {
  sweep_is_pending = false;
  sweep_casts();
  return 0;
}

// Torch's mutex is held at the end of an epoch, and a cast that is freed can run anything. So the main thread frees
// them between two of its next instructions.
void sweep_soon() {
  if (!cast_table().empty() && Py_IsInitialized() != 0 && !sweep_is_pending.exchange(true) &&
      Py_AddPendingCall(&sweep_now, nullptr) != 0) {
    sweep_is_pending = false;
  }
}

std::optional<std::string> obstacle(const at::Tensor& tensor) {
  const char* const why = opaque(tensor);
  return why == nullptr ? std::nullopt : std::optional<std::string>(why);
}

// Returns the address by which the tensor goes here, as release_at takes it.
uintptr_t keep(const at::Tensor& tensor, std::string name) {
  const char* const why = opaque(tensor);
  TORCH_CHECK(why == nullptr, "the tensor to keep casts of ", why);
  cast_table().keep(TensorView(tensor), std::move(name));
  return reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl());
}

void release_at(uintptr_t address) {
  cast_table().forget(reinterpret_cast<const void*>(address), true);
}

void forget(const std::vector<uintptr_t>& addresses) {
  for (const uintptr_t address : addresses) {
    cast_table().forget(reinterpret_cast<const void*>(address), false);
  }
}

py::dict counts(bool sweep) {
  if (sweep) {
    sweep_casts();
  }
  py::dict result;
  const auto tallies = cast_table().tallies();
  for (size_t device = 0; device < tallies.size(); ++device) {
    const Tally& tally = tallies[device];
    if (tally.entries + tally.hits + tally.misses + tally.drops != 0) {
      const std::string name = c10::DeviceTypeName(static_cast<c10::DeviceType>(device), true);
      result[py::str(name)] = py::make_tuple(tally.entries, tally.bytes, tally.hits, tally.misses, tally.drops);
    }
  }
  return result;
}

// The probes are Python's. They are asked only where a cast could be reused, which costs more than asking.
std::array<py::object*, TensorTraits::devices> probes{};

bool ask_probe(c10::DeviceType device) {
  const py::gil_scoped_acquire gil;
  return py::cast<bool>((*probes[static_cast<size_t>(device)])());
}

void set_probe(const std::string& device, const py::object& probe) {
  const c10::DeviceType type = c10::Device(device).type();
  set_recording_probe(type, nullptr);
  if (!probe.is_none()) {
    probes[static_cast<size_t>(type)] = new py::object(probe);  // never freed: another thread may be asking it
    set_recording_probe(type, &ask_probe);
  }
}

void limit(std::optional<size_t> bytes) {
  cast_table().limit(bytes.value_or(CastTable<TensorTraits>::no_limit));
}

}  // namespace

void bind_cast_cache(py::module_& module) {
  on_epoch_end(&sweep_soon);
  module.def("cast_obstacle", &obstacle, py::arg("tensor"));
  module.def("keep_casts", &keep, py::arg("tensor"), py::arg("name"));
  module.def("release_casts", &release_at, py::arg("address"));
  module.def("forget_casts", &forget, py::arg("addresses"));
  module.def("no_casts", [] { return cast_table().empty(); });
  module.def("cast_counts", &counts, py::arg("sweep") = true);
  module.def("clear_casts", [] { cast_table().clear(); });
  module.def("limit_casts", &limit, py::arg("bytes"));
  module.def("set_recording_probe", &set_probe, py::arg("device"), py::arg("probe"));
  module.def("verify_casts", &verify_casts, py::arg("enabled"));
}

}  // namespace polycast::autocast
