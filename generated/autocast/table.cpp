// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/builtin_policy.h"

#include <set>
#include <string>

namespace polycast::autocast {

void rules_0(std::vector<BuiltInRule>& rules, std::vector<PublicNames>& names);
void rules_1(std::vector<BuiltInRule>& rules, std::vector<PublicNames>& names);
void rules_2(std::vector<BuiltInRule>& rules, std::vector<PublicNames>& names);
void rules_3(std::vector<BuiltInRule>& rules, std::vector<PublicNames>& names);

const std::vector<Device>& devices() {
  static const std::vector<Device> table{
      {"cuda", "AutocastCUDA", {"float16", "bfloat16"}, ""},
      {"xla", "AutocastXLA", {"bfloat16"}, ""},
      {"xla_gpu", "AutocastXLA", {"float16", "bfloat16"}, "cuda"},
      {"xpu", "AutocastXPU", {"bfloat16", "float16"}, ""},
      {"cpu", "AutocastCPU", {"bfloat16", "float16"}, ""},
      {"mps", "AutocastMPS", {"float16", "bfloat16"}, ""},
      {"mtia", "AutocastMTIA", {"float16", "bfloat16"}, "cuda"},
      {"maia", "AutocastMAIA", {"bfloat16", "float16"}, "cuda"},
      {"hpu", "AutocastHPU", {"bfloat16", "float16"}, "cuda"},
      {"privateuse1", "AutocastPrivateUse1", {"float16", "bfloat16"}, "cuda"},
      {"npu", "AutocastPrivateUse1", {"float16", "bfloat16"}, "privateuse1"},
      {"musa", "AutocastPrivateUse1", {"float16", "bfloat16"}, "privateuse1"},
      {"mlu", "AutocastPrivateUse1", {"float16", "bfloat16"}, "privateuse1"},
      {"tpu", "AutocastPrivateUse1", {"bfloat16", "float16"}, "cpu"},
  };
  return table;
}

const std::vector<CategoryDoc>& category_docs() {
  static const std::vector<CategoryDoc> table{
      {Category::lower_precision_fp, "lower_precision_fp", "Casts every floating-point input to the lower precision of the region."},
      {Category::fp32, "fp32", "Casts every floating-point input to float32."},
      {Category::fp32_set_opt_dtype, "fp32_set_opt_dtype", "Computes and returns float32 through the op's own dtype argument, unless the caller passes one."},
      {Category::fp32_append_dtype, "fp32_append_dtype", "Calls the overload that accepts a dtype, and passes float32."},
      {Category::promote, "promote", "Casts every floating-point input to the widest floating-point dtype among them."},
      {Category::banned, "banned", "Raises an error that names the op to call instead."},
      {Category::input_dtype, "input_dtype", "Runs in the dtype of its inputs, and so do the ops that it runs."},
      {Category::stock, "stock", "Uses the kernel that PyTorch registers."},
  };
  return table;
}

namespace {

bool holds(const std::string& spelled, const std::string& name) {
  return spelled.find(" " + name + " ") != std::string::npos;
}

} // namespace

void add_rules(std::vector<BuiltInRule>& rules, const std::string& devices_of_rule, BuiltInRule rule) {
  const std::string spelled = " " + devices_of_rule + " ";
  std::set<std::string> found;
  for (const Device& device : devices()) {
    const bool inherits = found.count(device.like) != 0 && !holds(spelled, std::string("-") + device.name);
    if (inherits || holds(spelled, device.name)) {
      found.insert(device.name);
      rule.device = device.name;
      rules.push_back(rule);
    }
  }
}

namespace {

struct Table {
  std::vector<BuiltInRule> rules;
  std::vector<PublicNames> names;
};

const Table& table() {
  static const Table table = [] {
    Table all;
    rules_0(all.rules, all.names);
    rules_1(all.rules, all.names);
    rules_2(all.rules, all.names);
    rules_3(all.rules, all.names);
    all.names.push_back({"linalg_matrix_norm linalg_svdvals linalg_vector_norm", "torch.Tensor.norm"});
    all.names.push_back({"log_softmax nll_loss nll_loss2d sum", "torch.nn.CrossEntropyLoss"});
    all.names.push_back({"_cudnn_rnn _thnn_fused_gru_cell addmm cat gru linear matmul mm stack", "torch.nn.GRU"});
    all.names.push_back({"_cudnn_rnn _thnn_fused_lstm_cell linear lstm matmul mkldnn_rnn_layer stack", "torch.nn.LSTM"});
    all.names.push_back({"_native_multi_head_attention baddbmm bmm linear matmul scaled_dot_product_attention softmax", "torch.nn.MultiheadAttention"});
    all.names.push_back({"pairwise_distance", "torch.nn.PairwiseDistance"});
    all.names.push_back({"_cudnn_rnn linear relu rnn_relu rnn_tanh stack", "torch.nn.RNN"});
    all.names.push_back({"log_softmax nll_loss nll_loss2d sum", "torch.nn.functional.cross_entropy"});
    all.names.push_back({"col2im", "torch.nn.functional.fold"});
    all.names.push_back({"log_sigmoid", "torch.nn.functional.logsigmoid"});
    all.names.push_back({"linalg_vector_norm", "torch.nn.functional.normalize"});
    all.names.push_back({"pad", "torch.nn.functional.pad"});
    all.names.push_back({"pairwise_distance", "torch.nn.functional.pairwise_distance"});
    all.names.push_back({"im2col", "torch.nn.functional.unfold"});
    all.names.push_back({"linalg_matrix_norm linalg_svdvals linalg_vector_norm", "torch.norm"});
    return all;
  }();
  return table;
}

} // namespace

const std::vector<BuiltInRule>& built_in_rules() {
  return table().rules;
}

const std::vector<PublicNames>& public_names() {
  return table().names;
}

} // namespace polycast::autocast
