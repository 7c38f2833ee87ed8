// The cells of LSTM and GRU, which torch asks a device for as one op each. Here they are compositions of other ops.

#include <ATen/Tensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_thnn_differentiable_gru_cell_backward.h>
#include <ATen/ops/_thnn_differentiable_lstm_cell_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace mimic {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor plus(const Tensor& gates, const OptionalTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

// Returns the hidden state, the cell state, and the gates, which backward works on.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& cell,
    const OptionalTensor& input_bias,
    const OptionalTensor& hidden_bias) {
  const Tensor gates = plus(input_gates, input_bias) + plus(hidden_gates, hidden_bias);
  const auto parts = gates.chunk(4, 1);  // input, forget, candidate, output
  const Tensor next = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
  return {parts[3].sigmoid() * next.tanh(), next, gates};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(
    const OptionalTensor& grad_hidden,
    const OptionalTensor& grad_next,
    const Tensor& cell,
    const Tensor& next,
    const Tensor& gates,
    bool has_bias) {
  if (!(grad_hidden && grad_hidden->defined()) && !(grad_next && grad_next->defined())) return {};
  const auto grads = at::_thnn_differentiable_lstm_cell_backward(
      grad_hidden, grad_next, gates, at::zeros_like(gates), std::nullopt, std::nullopt, cell, next);
  const Tensor& grad_gates = std::get<0>(grads);
  return {grad_gates, std::get<2>(grads), has_bias ? grad_gates.sum(0) : Tensor()};
}

// Returns the hidden state, and what backward works on: both gates and the state before.
std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& hidden,
    const OptionalTensor& input_bias,
    const OptionalTensor& hidden_bias) {
  const Tensor from_input = plus(input_gates, input_bias), from_hidden = plus(hidden_gates, hidden_bias);
  const auto in = from_input.chunk(3, 1), own = from_hidden.chunk(3, 1);  // reset, update, new
  const Tensor reset = (in[0] + own[0]).sigmoid(), update = (in[1] + own[1]).sigmoid();
  const Tensor candidate = (in[2] + reset * own[2]).tanh();
  return {candidate + update * (hidden - candidate), at::cat({from_input, from_hidden, hidden}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad_hidden, const Tensor& workspace, bool has_bias) {
  const int64_t size = grad_hidden.size(1);
  const auto saved = workspace.split_with_sizes({3 * size, 3 * size, size}, 1);
  const auto grads =
      at::_thnn_differentiable_gru_cell_backward(grad_hidden, saved[0], saved[1], saved[2], std::nullopt, std::nullopt);
  const Tensor &from_input = std::get<0>(grads), &from_hidden = std::get<1>(grads);
  const auto bias = [&](const Tensor& gates) { return has_bias ? gates.sum(0) : Tensor(); };
  return {from_input, from_hidden, std::get<2>(grads), bias(from_input), bias(from_hidden)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_thnn_fused_gru_cell", gru_cell);
  library.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
  library.impl("_thnn_fused_lstm_cell", lstm_cell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
}

}  // namespace
}  // namespace mimic
