"""The operators of polycast on XLA, as computations over whole lists of tensors."""
