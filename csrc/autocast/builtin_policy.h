// The built-in policy: devices, categories and rules. The files in `generated/autocast/` contain its tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch {
class CppFunction;
}

namespace polycast::autocast {

// The way in which an op casts its arguments. `policy.yaml` describes each category except `unlisted`.
enum class Category : uint8_t {
  lower_precision_fp,
  fp32,
  fp32_set_opt_dtype,
  fp32_append_dtype,
  promote,
  banned,
  input_dtype,
  stock,
  unlisted,  // The op has no rule in `policy.yaml`, or a policy removes the rule.
};

struct Device {
  const char* name;
  const char* dispatch_key;
  std::vector<const char*> lower_precision;
  const char* like;  // The device inherits the rules of the device with this name. "" means none.
};

struct CategoryDoc {
  Category category;
  const char* name;
  const char* text;
};

// The index of an overload in the tables of rules.
using Slot = uint16_t;

// A rule of the built-in policy: one overload on one device.
struct BuiltInRule {
  const char* op;
  const char* overload;
  Category category;
  torch::CppFunction (*kernel)(Slot slot);
  const char* note = "";
  const char* message = "";  // The error message of a banned op.
  const char* device = "";
};

// Ops and the public names that call them: two lists, each separated by spaces.
struct PublicNames {
  const char* ops;
  const char* names;
};

// Adds the rule once for each device of a set such as "cuda xpu -npu". The set has the listed devices and the devices
// that inherit from a device of the set, except for devices with a "-".
void add_rules(std::vector<BuiltInRule>& rules, const std::string& devices, BuiltInRule rule);

const std::vector<Device>& devices();
const std::vector<CategoryDoc>& category_docs();
const std::vector<BuiltInRule>& built_in_rules();
const std::vector<PublicNames>& public_names();

}  // namespace polycast::autocast
