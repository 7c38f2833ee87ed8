"""Small versions of architectures in transformers, with random weights."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

BATCHES = 3

NAMES = ["Albert", "Bart", "Bert", "Bloom", "DistilBert", "Electra", "Falcon", "GPT2", "GPTNeoX", "Gemma"]
NAMES += ["Llama", "Mistral", "MPNet", "OPT", "Phi", "Qwen2", "Roberta", "T5", "ViT"]
# Configurations have different names for sizes. Each model receives the sizes that its configuration has.
SIZES = {
    0: "pad_token_id decoder_start_token_id",
    1: "num_key_value_heads",
    2: """num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_decoder_layers
    num_attention_heads num_heads n_head n_heads encoder_attention_heads decoder_attention_heads""",
    16: "head_dim d_kv patch_size",
    32: "hidden_size d_model n_embd dim embedding_size word_embed_proj_dim",
    64: "intermediate_size d_ff hidden_dim ffn_dim encoder_ffn_dim decoder_ffn_dim image_size",
    100: "vocab_size",
}


class _Seq2Seq(nn.Module):
    """A model that passes the same words to the encoder and the decoder."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Tensor) -> Any:
        return self.model(words, decoder_input_ids=words)


def of_transformers(name: str) -> tuple[nn.Module, list[Tensor]]:
    """Return a model of an architecture, and batches for the model."""
    package = pytest.importorskip("transformers", reason="transformers is not installed")
    config = getattr(package, f"{name}Config")
    known = config()
    computed = {key for key in dir(config) if isinstance(getattr(config, key), property)}  # Falcon computes `head_dim`.
    names = {key: size for size, keys in SIZES.items() for key in keys.split() if hasattr(known, key)}
    sizes = {key: size for key, size in names.items() if key not in computed}
    model = getattr(package, f"{name}Model")(config(**sizes))
    if name == "ViT":
        return model, [torch.rand(2, 3, 64, 64) for _ in range(BATCHES)]
    return _Seq2Seq(model) if model.config.is_encoder_decoder else model, words(100)


def words(count: int) -> list[Tensor]:
    """Return batches of word indices, without the padding index."""
    return [torch.randint(1, count, (2, 6)) for _ in range(BATCHES)]
