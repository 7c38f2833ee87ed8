"""A device outside of PyTorch (``PrivateUse1``) for the tests, and an example for vendors of such devices.

``setup.py``, ``mimic/`` and ``csrc/`` form a package like a vendor's, which ``torch`` imports automatically. The device
runs ops on the CPU. For PyTorch, it is another device with two indices. Its tensors do not mix with tensors of the
other index or of the CPU, except in copies. However, numbers, indices and lengths may be on the CPU. The device has its
own autograd threads and generators, and can raise for a device sync, like CUDA.

The autocast kernels come from codegen's file for backends, or from ``polycast.install``. Without these kernels, ops
raise ``NotImplementedError`` in a region. Page-locked memory, profilers, graphs, ``torch.compile`` with inductor, named
tensors, and tensors that processes share are not supported. Each index has one stream.
"""

NAME = "mimic"
