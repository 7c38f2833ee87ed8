#include "multi_tensor/checks.h"

#include <ATen/MemoryOverlap.h>
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

// Where a tensor stands.
struct Entry {
  const char* op;
  const List& list;
  size_t index;
  const Names& names;

  const at::Tensor& tensor() const {
    return list.tensors[index];
  }

  // "grads[3]", and whose it is.
  std::string text() const {
    return c10::str(list.name, "[", index, "]", names ? " (of " + names(index) + ")" : "");
  }
};

bool has_memory(const at::Tensor& tensor) {
  return !tensor.is_cpu() || tensor.key_set().has(c10::DispatchKey::Python) || !tensor.has_storage() ||
         tensor.numel() == 0 || tensor.storage().data() != nullptr;
}

void check_tensor(const Entry& entry, const List& first, c10::Device device) {
  const at::Tensor& tensor = entry.tensor();
  TORCH_CHECK_TYPE(
      tensor.layout() == at::kStrided && is_real(tensor.scalar_type()),
      c10::str(entry.op, ": ", entry.text(), " is a ", tensor.layout(), " tensor of "),
      python_name(tensor.scalar_type()),
      "; pass strided tensors of torch.float32, torch.float64, torch.float16 or torch.bfloat16");
  TORCH_CHECK(
      tensor.device() == device,
      c10::str(entry.op, ": ", entry.text(), " is on ", tensor.device(), " and ", first.name, "[0] on ", device),
      "; one call takes tensors of one device");
  TORCH_CHECK(
      !entry.list.written || !tensor.is_inference() || c10::InferenceMode::is_enabled(),
      c10::str(entry.op, ": ", entry.text()),
      " is an inference tensor, which cannot be written outside of torch.inference_mode()");
  TORCH_CHECK_VALUE(
      !entry.list.written || at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
      c10::str(entry.op, ": ", entry.text(), " has the sizes ", tensor.sym_sizes(), " and is expanded"),
      ", several elements in one place of memory; clone it first");
  TORCH_CHECK(
      has_memory(tensor),
      c10::str(entry.op, ": ", entry.text(), " has the sizes ", tensor.sym_sizes(), " and no memory"),
      "; its storage was resized to nothing, so give it back its data first");
}

void check_pair(const Entry& entry, const List& first) {
  const at::Tensor& tensor = entry.tensor();
  const at::Tensor& model = first.tensors[entry.index];
  TORCH_CHECK_VALUE(
      same_sizes(tensor, model),
      c10::str(entry.op, ": ", entry.text(), " has the sizes ", tensor.sym_sizes(), " and ", first.name),
      c10::str("[", entry.index, "] ", model.sym_sizes(), "; they must agree"));
}

void check_counter(const Entry& entry) {
  const at::Tensor& counter = entry.tensor();
  TORCH_CHECK_VALUE(
      counter.sym_numel() == 1 && (counter.scalar_type() == at::kFloat || counter.scalar_type() == at::kDouble),
      c10::str(entry.op, ": ", entry.text(), " has ", counter.sym_numel(), " elements of "),
      python_name(counter.scalar_type()),
      "; it takes one of torch.float32 or torch.float64");
}

}  // namespace

std::string python_name(at::ScalarType type) {
  return c10::str("torch.", c10::getDtypeNames(type).first);
}

void check_lengths(const char* op, c10::ArrayRef<List> lists) {
  for (const List& list : lists) {
    TORCH_CHECK_VALUE(
        list.tensors.size() == lists[0].tensors.size() || (list.tensors.empty() && list.optional),
        c10::str(op, ": ", list.name, " holds ", list.tensors.size(), " tensors and ", lists[0].name, " "),
        c10::str(lists[0].tensors.size(), "; pass one for each"));
  }
}

void check_lists(const char* op, c10::ArrayRef<List> lists, const Names& names) {
  const List& first = lists[0];
  for (size_t index = 0; index < first.tensors.size(); ++index) {
    for (const List& list : lists) {
      if (!list.tensors.empty()) {
        const Entry entry{op, list, index, names};
        check_tensor(entry, first, first.tensors[0].device());
        check_pair(entry, first);
      }
    }
  }
}

void check_counters(const char* op, const List& first, const List& counters, const Names& names) {
  const auto check_range = [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      prefetch_ahead(counters.tensors, index);
      const Entry entry{op, counters, static_cast<size_t>(index), names};
      check_tensor(entry, first, first.tensors[0].device());
      check_counter(entry);
    }
  };
  const auto count = static_cast<int64_t>(counters.tensors.size());
  // The sizes of a tensor that Python made may need Python.
  if (count == 0 || first.tensors[0].key_set().has(c10::DispatchKey::Python)) {
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
      c10::str(op, ": ", name, " is of ", python_name(tensor->scalar_type()), "; it takes a floating-point dtype"));
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
