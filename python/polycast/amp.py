"""Says where the names of torch.amp are."""

raise ImportError("there is no polycast.amp: from polycast import autocast, GradScaler, custom_fwd, custom_bwd")
