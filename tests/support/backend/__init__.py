"""A device outside of PyTorch (PrivateUse1) for the tests, and an example for vendors of such devices.

setup.py, mimic/ and csrc/ form a package like a vendor's, which torch imports automatically. The device computes on the
CPU. For PyTorch it is another device, with two indices. Its tensors do not mix with CPU tensors or with the other
index. It has its own autograd thread and generators, and can raise for a device sync, like CUDA.

The autocast kernels come from codegen's file for backends, or from polycast.install. Without these kernels, ops raise
NotImplementedError in a region.

The device does not support page-locked memory, profilers, graphs, torch.compile with inductor, named tensors, or
tensors that processes share. Each index has one stream.
"""

NAME = "mimic"
