"""Says where the names of torch.cuda.amp are."""

raise ImportError(
    "there is no polycast.cuda.amp: from polycast import autocast, GradScaler; name the device in the call"
)
