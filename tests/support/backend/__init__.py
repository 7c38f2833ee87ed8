"""A device outside of PyTorch (PrivateUse1) for the tests, and an example for vendors of such devices.

setup.py, mimic/ and csrc/ form a package like a vendor's, which torch imports automatically. The device computes on the
CPU. For PyTorch it is another device, with two indices: tensors do not mix with CPU tensors or with the other index,
autograd runs in its own thread, the generators are its own, and a sync can be turned into an error, as on cuda.

The autocast kernels come from codegen's file for backends, or from polycast.install. Without either, ops raise
NotImplementedError in a region.

The device does not support page-locked memory, profilers, graphs, torch.compile with inductor, named tensors, and
processes that share tensors. Each index has one stream.
"""

NAME = "mimic"
