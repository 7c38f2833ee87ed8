#include "multi_tensor/checks.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "multi_tensor/prefetch.h"

namespace polycast::multi_tensor {

namespace {

bool same_sizes(const at::Tensor& left, const at::Tensor& right) {
  const bool symbolic = left.unsafeGetTensorImpl()->has_symbolic_sizes_strides() ||
                        right.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  return symbolic ? left.sym_sizes() == right.sym_sizes() : left.sizes() == right.sizes();
}

std::string place(const List& list, size_t index) {
  return c10::str(list.name, "[", index, "]");
}

void check_length(const char* op, const List& list, const List& first, bool may_be_empty) {
  TORCH_CHECK_VALUE(
      list.tensors.size() == first.tensors.size() || (list.tensors.empty() && may_be_empty),
      c10::str(op, ": ", list.name, " holds ", list.tensors.size(), " tensors and ", first.name, " "),
      c10::str(first.tensors.size(), "; pass one for each"));
}

void check_tensor(const char* op, const List& list, size_t index, const List& first, c10::Device device) {
  const at::Tensor& tensor = list.tensors[index];
  TORCH_CHECK_TYPE(
      tensor.layout() == at::kStrided && is_real(c10::toRealValueType(tensor.scalar_type())),
      c10::str(op, ": ", place(list, index), " is a ", tensor.layout(), " tensor of "),
      python_name(tensor.scalar_type()),
      "; pass strided tensors of torch.float32, torch.float64, torch.float16, torch.bfloat16 or a complex type");
  TORCH_CHECK(
      tensor.device() == device,
      c10::str(op, ": ", place(list, index), " is on ", tensor.device(), " and ", place(first, 0), " on ", device),
      "; one call takes tensors of one device");
  TORCH_CHECK(
      !list.written || !tensor.is_inference() || c10::InferenceMode::is_enabled(),
      c10::str(op, ": ", place(list, index)),
      " is an inference tensor, which cannot be written outside of torch.inference_mode()");
}

void check_pair(const char* op, const List& list, const List& first, size_t index) {
  const at::Tensor& tensor = list.tensors[index];
  const at::Tensor& model = first.tensors[index];
  TORCH_CHECK_VALUE(
      same_sizes(tensor, model),
      c10::str(op, ": ", place(list, index), " has the sizes ", tensor.sym_sizes(), " and "),
      c10::str(place(first, index), " ", model.sym_sizes(), "; they must agree"));
  TORCH_CHECK_TYPE(
      tensor.is_complex() == model.is_complex(),
      c10::str(op, ": ", place(list, index), " is of ", python_name(tensor.scalar_type()), " and "),
      c10::str(place(first, index), " of ", python_name(model.scalar_type())),
      "; both must be real, or both complex");
}

void check_counter(const char* op, const List& counters, size_t index) {
  const at::Tensor& counter = counters.tensors[index];
  TORCH_CHECK_VALUE(
      counter.sym_numel() == 1 && (counter.scalar_type() == at::kFloat || counter.scalar_type() == at::kDouble),
      c10::str(op, ": ", place(counters, index), " has ", counter.sym_numel(), " elements of "),
      python_name(counter.scalar_type()),
      "; it takes one of torch.float32 or torch.float64");
}

}  // namespace

std::string python_name(at::ScalarType type) {
  return c10::str("torch.", c10::getDtypeNames(type).first);
}

void check_lists(const char* op, c10::ArrayRef<List> lists) {
  const List& first = lists[0];
  for (const List& list : lists) {
    check_length(op, list, first, &list != &first);
  }
  if (first.tensors.empty()) {
    return;
  }
  const c10::Device device = first.tensors[0].device();
  for (size_t index = 0; index < first.tensors.size(); ++index) {
    for (const List& list : lists) {
      if (!list.tensors.empty()) {
        check_tensor(op, list, index, first, device);
        check_pair(op, list, first, index);
      }
    }
  }
}

void check_counters(const char* op, const List& first, const List& counters) {
  check_length(op, counters, first, true);
  if (counters.tensors.empty()) {
    return;
  }
  const c10::Device device = first.tensors[0].device();
  const auto check_range = [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      prefetch_ahead(counters.tensors, index);
      check_tensor(op, counters, index, first, device);
      check_counter(op, counters, index);
    }
  };
  const auto count = static_cast<int64_t>(counters.tensors.size());
  // The sizes of a tensor that Python made may need Python.
  if (first.tensors[0].key_set().has(c10::DispatchKey::Python)) {
    check_range(0, count);
  } else {
    at::parallel_for(0, count, tensor_grain_size, check_range);
  }
}

void check_scalar(const char* op, const char* name, const std::optional<at::Tensor>& tensor, c10::Device device) {
  if (!tensor.has_value()) {
    return;
  }
  TORCH_CHECK_VALUE(tensor->sym_numel() == 1, op, ": ", name, " has ", tensor->sym_numel(), " elements; it takes one");
  TORCH_CHECK_TYPE(
      at::isFloatingType(tensor->scalar_type()),
      c10::str(op, ": ", name, " is of ", python_name(tensor->scalar_type()), "; it takes a floating-point type"));
  TORCH_CHECK(
      tensor->device() == device,
      c10::str(op, ": ", name, " is on ", tensor->device(), " and the tensors on ", device, "; move it there"));
}

void check_found_inf(const char* op, const std::optional<at::Tensor>& found_inf, c10::Device device) {
  TORCH_CHECK_TYPE(
      !found_inf.has_value() || found_inf->scalar_type() == at::kFloat,
      c10::str(op, ": found_inf is of ", python_name(found_inf->scalar_type()), "; it takes torch.float32"));
  check_scalar(op, "found_inf", found_inf, device);
}

}  // namespace polycast::multi_tensor
