#include "multi_tensor/lists.h"

#include <ATen/Parallel.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/InferenceMode.h>

#include "multi_tensor/prefetch.h"

namespace polycast::multi_tensor {

namespace {

bool same_sizes(const at::Tensor& left, const at::Tensor& right) {
  const bool symbolic = left.unsafeGetTensorImpl()->has_symbolic_sizes_strides() ||
                        right.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  return symbolic ? left.sym_sizes() == right.sym_sizes() : left.sizes() == right.sizes();
}

void check_tensor(const char* op, const List& list, size_t index, const List& first, c10::Device device) {
  const at::Tensor& tensor = list.tensors[index];
  TORCH_CHECK_TYPE(
      tensor.layout() == at::kStrided && is_real(c10::toRealValueType(tensor.scalar_type())),
      op,
      ": ",
      list.name,
      "[",
      index,
      "] is a ",
      tensor.layout(),
      " tensor of ",
      tensor.scalar_type(),
      "; pass strided tensors of Float, Double, Half, BFloat16 or a complex type");
  TORCH_CHECK(
      tensor.device() == device,
      op,
      ": ",
      list.name,
      "[",
      index,
      "] is on ",
      tensor.device(),
      " and ",
      first.name,
      "[0] on ",
      device,
      "; one call takes tensors of one device");
  TORCH_CHECK(
      !list.written || !tensor.is_inference() || c10::InferenceMode::is_enabled(),
      op,
      ": ",
      list.name,
      "[",
      index,
      "] is an inference tensor, which cannot be written outside of torch.inference_mode()");
}

void check_pair(const char* op, const List& list, const List& first, size_t index) {
  const at::Tensor& tensor = list.tensors[index];
  const at::Tensor& model = first.tensors[index];
  TORCH_CHECK_VALUE(
      same_sizes(tensor, model),
      op,
      ": ",
      list.name,
      "[",
      index,
      "] has the sizes ",
      tensor.sym_sizes(),
      " and ",
      first.name,
      "[",
      index,
      "] ",
      model.sym_sizes(),
      "; they must agree");
  TORCH_CHECK_TYPE(
      tensor.is_complex() == model.is_complex(),
      op,
      ": ",
      list.name,
      "[",
      index,
      "] is of ",
      tensor.scalar_type(),
      " and ",
      first.name,
      "[",
      index,
      "] of ",
      model.scalar_type(),
      "; both must be real, or both complex");
}

}  // namespace

void check_lists(const char* op, c10::ArrayRef<List> lists) {
  const List& first = lists[0];
  for (const List& list : lists) {
    TORCH_CHECK_VALUE(
        list.tensors.size() == first.tensors.size() || (list.tensors.empty() && &list != &first),
        op,
        ": ",
        list.name,
        " holds ",
        list.tensors.size(),
        " tensors and ",
        first.name,
        " ",
        first.tensors.size(),
        "; pass one for each");
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
  TORCH_CHECK_VALUE(
      counters.tensors.size() == first.tensors.size() || counters.tensors.empty(),
      op,
      ": ",
      counters.name,
      " holds ",
      counters.tensors.size(),
      " tensors and ",
      first.name,
      " ",
      first.tensors.size(),
      "; pass one for each");
  if (counters.tensors.empty()) {
    return;
  }
  const c10::Device device = first.tensors[0].device();
  const auto check_range = [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      prefetch_ahead(counters.tensors, index);
      const at::Tensor& counter = counters.tensors[index];
      check_tensor(op, counters, index, first, device);
      TORCH_CHECK_VALUE(
          counter.sym_numel() == 1 && (counter.scalar_type() == at::kFloat || counter.scalar_type() == at::kDouble),
          op,
          ": ",
          counters.name,
          "[",
          index,
          "] has ",
          counter.sym_numel(),
          " elements of ",
          counter.scalar_type(),
          "; it takes one of Float or Double");
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
      op,
      ": ",
      name,
      " is of ",
      tensor->scalar_type(),
      "; it takes a floating-point type");
  TORCH_CHECK(
      tensor->device() == device,
      op,
      ": ",
      name,
      " is on ",
      tensor->device(),
      " and the tensors on ",
      device,
      "; move it there");
}

void check_found_inf(const char* op, const std::optional<at::Tensor>& found_inf, c10::Device device) {
  TORCH_CHECK_TYPE(
      !found_inf.has_value() || found_inf->scalar_type() == at::kFloat,
      op,
      ": found_inf is of ",
      found_inf->scalar_type(),
      "; it takes Float");
  check_scalar(op, "found_inf", found_inf, device);
}

void raise_versions(at::TensorList tensors) {
  at::parallel_for(0, tensors.size(), tensor_grain_size, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      if (!tensors[index].is_inference()) {
        tensors[index].unsafeGetTensorImpl()->bump_version();
      }
    }
  });
}

std::vector<at::Tensor> as_real(at::TensorList tensors) {
  std::vector<at::Tensor> results;
  results.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    results.push_back(tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor);
  }
  return results;
}

bool same_order(const at::Tensor& left, const at::Tensor& right) {
  if (left.is_contiguous() && right.is_contiguous()) {
    return true;
  }
  if (!left.is_non_overlapping_and_dense() || !right.is_non_overlapping_and_dense()) {
    return false;
  }
  for (int64_t dim = 0; dim < left.dim(); ++dim) {
    if (left.size(dim) != 1 && left.stride(dim) != right.stride(dim)) {
      return false;
    }
  }
  return true;
}

}  // namespace polycast::multi_tensor
