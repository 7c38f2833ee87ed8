// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/table.h"

namespace polycast::autocast {

void rows_0(std::vector<Row>& rows);
void rows_1(std::vector<Row>& rows);
void rows_2(std::vector<Row>& rows);
void rows_3(std::vector<Row>& rows);

const std::vector<Device>& devices() {
  static const std::vector<Device> table{
      {"cuda", "AutocastCUDA", {"float16", "bfloat16"}, true},
      {"xla", "AutocastXLA", {"bfloat16"}, true},
      {"xla_gpu", "AutocastXLA", {"float16", "bfloat16"}, true},
      {"xpu", "AutocastXPU", {"bfloat16", "float16"}, true},
      {"cpu", "AutocastCPU", {"bfloat16", "float16"}, true},
      {"mps", "AutocastMPS", {"float16", "bfloat16"}, true},
      {"mtia", "AutocastMTIA", {"float16", "bfloat16"}, true},
      {"maia", "AutocastMAIA", {"bfloat16", "float16"}, true},
      {"hpu", "AutocastHPU", {"bfloat16", "float16"}, true},
      {"privateuse1", "AutocastPrivateUse1", {"float16", "bfloat16"}, true},
  };
  return table;
}

const std::vector<Sentence>& sentences() {
  static const std::vector<Sentence> table{
      {Category::lower_precision_fp, "lower_precision_fp", "Casts every floating-point input to the lower precision of the region."},
      {Category::fp32, "fp32", "Casts every floating-point input to float32."},
      {Category::fp32_set_opt_dtype, "fp32_set_opt_dtype", "Computes and returns float32 through the op's own dtype argument, unless the caller gave one."},
      {Category::fp32_append_dtype, "fp32_append_dtype", "Calls the overload that takes a dtype, with float32."},
      {Category::promote, "promote", "Casts every floating-point input to the widest floating-point type among them."},
      {Category::banned, "banned", "Raises an error that says what to call instead."},
      {Category::fallthrough, "fallthrough", "Runs in the type of its inputs, on purpose."},
      {Category::stock, "stock", "Keeps the kernel that torch itself registers."},
  };
  return table;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = [] {
    std::vector<Row> all;
    rows_0(all);
    rows_1(all);
    rows_2(all);
    rows_3(all);
    return all;
  }();
  return table;
}

} // namespace polycast::autocast
