// The policy as it was compiled in: devices, categories and rows. generated/autocast/ fills it.
#pragma once

#include <cstdint>
#include <vector>

namespace torch {
class CppFunction;
}

namespace polycast::autocast {

// What autocasting does to an op. policy.yaml says it in a sentence each.
enum class Category : uint8_t {
  lower_precision_fp,
  fp32,
  fp32_set_opt_dtype,
  fp32_append_dtype,
  promote,
  banned,
  fallthrough,
  stock,
};

struct Device {
  const char* name;
  const char* dispatch_key;
  std::vector<const char*> lower_precision;
  bool cache;  // whether the casts of its weights may be reused
};

struct Sentence {
  Category category;
  const char* name;
  const char* text;
};

// One overload of an operator on one device.
struct Row {
  const char* op;
  const char* overload;
  const char* device;
  Category category;
  torch::CppFunction (*kernel)();  // null where the category calls no op
  const char* note = "";
  const char* message = "";  // for banned
};

const std::vector<Device>& devices();
const std::vector<Sentence>& sentences();
const std::vector<Row>& rows();

}  // namespace polycast::autocast
