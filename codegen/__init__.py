"""Turns policy.yaml into the files of generated/: `python -m codegen`.

The modules form a line, and each imports only what stands before it: errors, load, schemas and versions, model,
parse, render; write stands apart and knows nothing of policies. Nothing here imports torch.
"""
