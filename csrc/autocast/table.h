// The policy as it was compiled in: devices, categories and rows. generated/autocast/ fills it.
#pragma once

#include <cstdint>
#include <string>
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
  unlisted,  // no category of policy.yaml: what has no row, or is given none by a rule at run time
};

struct Device {
  const char* name;
  const char* dispatch_key;
  std::vector<const char*> lower_precision;
  bool cache;                       // whether the casts of its weights may be reused
  const char* like;                 // the device whose categories it takes where an op does not name it; empty for none
  std::vector<const char*> spoken;  // what else users call it
};

struct Sentence {
  Category category;
  const char* name;
  const char* text;
};

// The place of an overload in the tables of rules.
using Slot = uint16_t;

// One overload of an operator on one device.
struct Row {
  const char* op;
  const char* overload;
  Category category;
  torch::CppFunction (*kernel)(Slot slot);
  const char* note = "";
  const char* message = "";  // for banned
  const char* device = "";
};

// What people write to call ops. Lists of names have a space between two.
struct Names {
  const char* ops;
  const char* names;
};

// Adds a row for each of several devices, whose names have a space between two.
void add_rows(std::vector<Row>& rows, const std::string& devices, Row row);

const std::vector<Device>& devices();
const std::vector<Sentence>& sentences();
const std::vector<Row>& rows();
const std::vector<Names>& names();       // of one op each, with its public names
const std::vector<Names>& composites();  // of one name each, with the ops that it runs

}  // namespace polycast::autocast
