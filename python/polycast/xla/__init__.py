"""XLA: its runtime, and the operators of polycast as computations over whole lists of tensors."""
