// The reasons why a category cannot cast an overload, derived from the overload's schema.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autocast/rules.h"

namespace polycast::autocast {

namespace {

c10::TypePtr without_optional(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

// Returns the number of tensors in an argument that autocast casts; a list counts as two.
int tensors_in(const c10::Argument& argument) {
  const c10::TypePtr type = without_optional(argument.real_type());
  const auto list = type->cast<c10::ListType>();
  const c10::TypePtr element = list ? without_optional(list->getElementType()) : type;
  return element->kind() != c10::TypeKind::TensorType ? 0 : list ? 2 : 1;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Returns whether `policy.yaml` lists an op, such as "aten::pow", on any device.
bool is_listed(const std::string& op) {
  const auto row = built_in_rows().lower_bound(op);  // "." sorts before all other characters of names.
  return row != built_in_rows().end() && operator_name(row->first).name == op;
}

// Returns why no category can cast the overload, or an empty string.
std::string obstacle_to_all(const c10::FunctionSchema& schema) {
  const std::vector<c10::Argument>& arguments = schema.arguments();
  const auto any = [&](const auto& question) { return std::any_of(arguments.begin(), arguments.end(), question); };
  if (any(is_written)) {
    return "writes to an argument; name an op or overload that returns a new tensor";
  }
  // For example, `squeeze` and `reshape` can return views. An op that `policy.yaml` lists is exempt, because it returns
  // new tensors in the calls that are cast.
  if (!is_listed(schema.name()) &&
      any([](const c10::Argument& argument) { return argument.alias_info() != nullptr; })) {
    return "can return a view of its argument, and a cast would break that aliasing; remove the rule";
  }
  const bool accepts_tensors = any([](const c10::Argument& argument) { return tensors_in(argument) > 0; });
  return accepts_tensors ? "" : "accepts no tensor; remove the rule";
}

}  // namespace

bool is_optional_dtype(const c10::Argument& argument) {
  const auto optional = argument.real_type()->cast<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::ScalarTypeType;
}

bool updates_statistics(const c10::FunctionSchema& schema) {
  return schema.argumentIndexWithName("running_mean").has_value();
}

std::vector<std::string> overloads_of(const std::string& key) {
  std::vector<std::string> names;
  if (key == "*") {
    for (const auto& [name, row] : built_in_rows()) {
      names.push_back(name);
    }
    return names;
  }
  const c10::OperatorName given = operator_name(key);
  if (!given.overload_name.empty()) {
    return {given.overload_name == "default" ? given.name : key};
  }
  for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(key))) {
    const c10::OperatorName& name = op->schema().operator_name();
    if (c10::Dispatcher::singleton().findSchema(name)) {  // TorchScript has further operators of its own.
      names.push_back(c10::toString(name));
    }
  }
  return names;
}

std::string obstacle(const std::string& name, Category category, DeviceIndex device) {
  if (built_in_category(name, device) == Category::stock) {
    return std::string("uses PyTorch's own kernel on ") + devices()[device].name + "; remove the rule there";
  }
  const auto op = c10::Dispatcher::singleton().findSchema(operator_name(name));
  if (!op) {
    return "is not registered; import the library that registers it first";
  }
  const std::string reason = obstacle_to_all(op->schema());
  if (!reason.empty()) {
    return reason;
  }
  const std::vector<c10::Argument>& arguments = op->schema().arguments();
  // Only an overload with a built-in rule `fp32_append_dtype` has a kernel that appends a dtype.
  const BuiltInRow& row = built_in_row(name);
  const auto appends = [](const BuiltInRule* rule) { return rule && rule->category == Category::fp32_append_dtype; };
  if (category == Category::fp32_append_dtype && std::none_of(row.begin(), row.end(), appends)) {
    return "is not an op that has this category in policy.yaml; use fp32";
  }
  if (category == Category::fp32_set_opt_dtype && std::none_of(arguments.begin(), arguments.end(), is_optional_dtype)) {
    return "has no optional dtype argument; use fp32";
  }
  if (category == Category::lower_precision_fp && updates_statistics(op->schema())) {
    return "updates its running statistics, and an update of cast copies would be lost; use fp32";
  }
  int tensors = 0;
  for (const c10::Argument& argument : arguments) {
    tensors += tensors_in(argument);
  }
  return category == Category::promote && tensors < 2 ? "accepts only one tensor; use fp32 or lower_precision_fp" : "";
}

}  // namespace polycast::autocast
