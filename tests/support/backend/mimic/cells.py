"""The cells of LSTM and GRU as compositions of ops. On a ``PrivateUse1`` device, PyTorch calls one op for each cell."""

import torch
from torch import Tensor

aten = torch.ops.aten


def plus(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def lstm_cell(
    inputs: Tensor, hiddens: Tensor, cell: Tensor, input_bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Return the hidden state, the cell state, and the gates, which backward needs."""
    gates = plus(inputs, input_bias) + plus(hiddens, hidden_bias)
    taken, forgotten, candidate, output = gates.chunk(4, 1)
    state = forgotten.sigmoid() * cell + taken.sigmoid() * candidate.tanh()
    return output.sigmoid() * state.tanh(), state, gates


def lstm_cell_backward(
    grad_hidden: Tensor | None, grad_state: Tensor | None, cell: Tensor, state: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor | None, ...]:
    if grad_hidden is None and grad_state is None:
        return None, None, None
    given = (grad_hidden, grad_state, gates, torch.zeros_like(gates), None, None, cell, state)
    grad, _, grad_cell, *_ = aten._thnn_differentiable_lstm_cell_backward(*given)
    return grad, grad_cell, grad.sum(0) if has_bias else None


def gru_cell(
    inputs: Tensor, hiddens: Tensor, hidden: Tensor, input_bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Return the hidden state, and the values that backward needs: the inputs of the gates and the previous state."""
    inputs, hiddens = plus(inputs, input_bias), plus(hiddens, hidden_bias)
    (reset, update, new), (own_reset, own_update, own_new) = inputs.chunk(3, 1), hiddens.chunk(3, 1)
    candidate = (new + (reset + own_reset).sigmoid() * own_new).tanh()
    result = candidate + (update + own_update).sigmoid() * (hidden - candidate)
    return result, torch.cat([inputs, hiddens, hidden], 1)


def gru_cell_backward(grad: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    size = grad.shape[1]
    saved = workspace.split_with_sizes([3 * size, 3 * size, size], 1)
    inputs, hiddens, hidden, *_ = aten._thnn_differentiable_gru_cell_backward(grad, *saved, None, None)
    return inputs, hiddens, hidden, *((inputs.sum(0), hiddens.sum(0)) if has_bias else (None, None))


KERNELS = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
