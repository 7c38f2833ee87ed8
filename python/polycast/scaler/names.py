"""Names that other gradient scalers have, and what to write here."""

from typing import Any

# What to write, and the names that people type for it.
_INSTEAD = {
    "clip_grad_norm(optimizer, max_norm)": "clip_grad_norm_ clip_grad clip_grads clip_gradients clip",
    "unscale_(optimizer), then torch.nn.utils.clip_grad_value_": "clip_grad_value_ clip_grad_value",
    "skipped()": "step_was_skipped optimizer_step_was_skipped was_skipped is_skipped has_skipped step_skipped skip "
    "found_inf found_infs found_nan has_inf has_nan has_inf_or_nan has_overflow overflow",
    "skip_count()": "skips num_skips num_skipped skipped_steps num_skipped_steps skip_counts",
    "non_finite()": "nonfinite non_finite_grads find_non_finite",
    "get_scale()": "loss_scale get_loss_scale current_scale cur_scale scale_factor scaling_factor scale_value",
    "update(new_scale)": "set_scale set_loss_scale update_scale reset",
    "scale(loss).backward()": "backward scale_loss",
    "unscale_(optimizer)": "unscale_grads unscale_grads_ unscale_gradients unscale_gradients_",
    "step(optimizer), then update()": "optimizer_step step_optimizer minimize",
    "is_enabled()": "enabled",
    "get_growth_interval()": "growth_interval",
    "get_growth_factor()": "growth_factor",
    "get_backoff_factor()": "backoff_factor",
}
_REMEDIES = {name: remedy for remedy, names in _INSTEAD.items() for name in names.split()}


def no_attribute(scaler: Any, name: str) -> AttributeError:
    """Return the error for an attribute that a scaler lacks."""
    text = f"{type(scaler).__name__!r} object has no attribute {name!r}"
    if name in _REMEDIES:
        return AttributeError(f"{text}; write scaler.{_REMEDIES[name]}")
    return AttributeError(text, name=name, obj=scaler)  # Python suggests a similar one
