"""Inference under autocast, in eager mode and as a traced and frozen graph."""

import warnings

import polycast
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Conv2d(64, 128, (3, 3), stride=(2, 2), padding=(1, 1), bias=False).eval()
x = torch.rand(4, 64, 56, 56)
with torch.no_grad():
    wanted = model(x)

for dtype in (torch.bfloat16, torch.float16):
    # The cache is disabled, because tracing would record a cached cast as a constant.
    with torch.no_grad(), polycast.autocast("cpu", dtype, cache_enabled=False), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit")
        y = model(x)
        traced = torch.jit.freeze(torch.jit.trace(model, x))  # type: ignore[no-untyped-call]
    error = (y.float() - wanted).abs().max().item()
    print(f"{dtype}: largest error {error:.1e}, traced and frozen the same: {torch.equal(traced(x), y)}")
