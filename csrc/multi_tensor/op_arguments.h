// The arguments of the operators over lists of tensors, and the one check of them, which the kernels of all devices
// call before they write.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace polycast::multi_tensor {

using OptionalTensor = std::optional<at::Tensor>;

// The way in which an operator uses a list. A counter is a written number for each tensor of the first list.
enum class Use { read, written, counter };

struct ListArgument {
  const char* name;
  Use use;
  bool optional = false;  // The list may be empty.
};

// A one-element tensor.
struct ScalarArgument {
  const char* name;
  at::ScalarType type = at::kFloat;  // Undefined is any floating-point dtype.
  bool on_cpu = false;               // The tensor may also be on the CPU.
};

struct OpArguments {
  std::string_view op;
  std::vector<ListArgument> lists;
  std::vector<ScalarArgument> scalars;
  bool needs_tensors = false;  // Without a tensor the results have no device.

  static const OpArguments& of(std::string_view op);
};

// The lists and scalars of a call, in the order of the schema.
struct Call {
  const OpArguments& expected;
  std::vector<at::TensorList> lists;
  std::vector<OptionalTensor> scalars;
};

// The name, for errors, of the parameter at an index of the lists.
using Names = std::function<std::string(size_t)>;

// Checks the lengths of the lists, and the scalars. Without lists the scalars may be on any devices.
void check_scalars(const Call& call);
// Checks the tensors of one list: they have the device and the shapes of the first list.
void check_list(const Call& call, size_t list, const Names& names = {});
// Checks all lists and scalars.
void check(const Call& call, const Names& names = {});
void check_norm_type(double norm_type);

// Raises the versions of all tensors of the written lists.
void raise_versions(const Call& call);

}  // namespace polycast::multi_tensor
