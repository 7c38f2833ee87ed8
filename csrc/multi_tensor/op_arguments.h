// The arguments of the operators, and their check. The kernels of all devices check the arguments before they write.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <vector>

namespace polycast::multi_tensor {

using OptionalTensor = std::optional<at::Tensor>;

// The way in which an operator uses a list. A counter list counts the steps that were not skipped.
enum class Use { read, written, counter };

struct ListArgument {
  const char* name;
  Use use;
  bool optional = false;  // The list may be empty.
};

// An argument that is a one-element tensor.
struct ScalarArgument {
  const char* name;
  at::ScalarType type = at::kFloat;  // `Undefined` means any floating-point dtype.
  bool on_cpu = false;               // The tensor may also be on the CPU.
};

struct OpArguments {
  std::string_view op;
  std::vector<ListArgument> lists;
  std::vector<ScalarArgument> scalars;
  bool needs_tensors = false;  // Without a tensor, the device of the results is unknown.

  static const OpArguments& of(std::string_view op);
};

// The lists and scalars of a call, in the order of the schema.
struct Call {
  const OpArguments& expected;
  std::vector<at::TensorList> lists;
  std::vector<OptionalTensor> scalars;
};

// Checks the lengths of the lists, and the scalars. If the first list is empty, the scalars may be on any devices.
void check_scalars(const Call& call);
// Checks the tensors of one list. Each tensor must be on the device of the first list. A counter must have one element,
// and any other tensor must have the sizes of the first list's tensor at the same index.
void check_list(const Call& call, size_t list);
void check(const Call& call);

// Increments the versions of all tensors of the written lists and the counter lists.
void raise_versions(const Call& call);

}  // namespace polycast::multi_tensor
