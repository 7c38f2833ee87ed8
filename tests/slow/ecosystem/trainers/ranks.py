"""Torch with several processes: DDP, FSDP2, tensor parallelism, pipelines, and checkpoints of another world."""
