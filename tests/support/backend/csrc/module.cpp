// What the Python module of the device calls.

#include <torch/csrc/utils/pybind.h>

#include "device.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("device_count", [] { return int(mimic::kCount); });
  module.def("current_device", [] { return int(mimic::current_device()); });
  module.def("exchange_device", [](int index) { return int(mimic::exchange_device(c10::DeviceIndex(index))); });
  module.def("default_generator", [](int index) { return mimic::default_generator(c10::DeviceIndex(index)); });
  module.def("set_sync_debug_mode", [](int mode) { mimic::set_syncs(mimic::Syncs(mode)); });
  module.def("get_sync_debug_mode", [] { return int(mimic::syncs()); });
}
