// Checks of the arguments of operators over lists of tensors. They run before anything is written.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>

#include "multi_tensor/tensor_memory.h"

namespace polycast::multi_tensor {

// The name, in messages, of the parameter at a place of the lists; empty if nobody knows it.
using Names = std::function<std::string(size_t)>;

// The lists are as long as the first. An optional one may be empty.
void check_lengths(const char* op, c10::ArrayRef<List> lists);

// The tensors are strided and floating-point, on the device of the first list, and each has the sizes of the first
// list's at its place.
void check_lists(const char* op, c10::ArrayRef<List> lists, const Names& names = {});

// One real element for each tensor of the first list, on its device.
void check_counters(const char* op, const List& first, const List& counters, const Names& names = {});

// At most one floating-point element on the device; float32 for found_inf.
void check_scalar(const char* op, const char* name, const std::optional<at::Tensor>& tensor, c10::Device device);
void check_found_inf(const char* op, const std::optional<at::Tensor>& found_inf, c10::Device device);

// The name of a dtype in Python, for messages.
std::string python_name(at::ScalarType type);

}  // namespace polycast::multi_tensor
