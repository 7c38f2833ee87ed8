"""A device outside of torch (PrivateUse1) for the tests, and an example for vendors of such devices.

setup.py, mimic/ and csrc/ are a package as vendors have one, which torch imports by itself. It computes on the host. To
torch it is another device, with two indices: tensors do not mix with the host's or with those of the other index,
autograd runs in a thread of its own, the generators are its own, and a sync can be made an error, as on cuda.

Autocasting is added by codegen's file for backends, or by polycast.install. Without either ops raise
NotImplementedError in a region.

It lacks page-locked memory, profilers, graphs, torch.compile with inductor, named tensors, and processes that share
tensors. It has one stream for each index.
"""

NAME = "mimic"
