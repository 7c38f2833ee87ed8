"""Runs architectures of torchvision, timm and transformers beside stock kernels: `python -m tools.model_zoo [PART...]`.

Random weights, on the host, in training with a region for each batch and in evaluation with one region for all; an
architecture runs where its name contains one of the parts, or always without any, and on XLA with --xla. What the
environment lacks is left out: `pip install torchvision timm transformers`, of releases that fit its torch.
"""

import argparse
import importlib.util
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import polycast
import torch
from torch import Tensor, nn
from tqdm import tqdm

from testing.models.architectures import ARCHITECTURES, BATCHES
from testing.models.runs import Results, Way, different, run
from testing.probe import stock_kernels

Build = Callable[[], tuple[nn.Module, list[Tensor]]]
WAYS = [Way(train=True, one_region=False), Way(train=False, one_region=True)]
TORCHVISION = """
alexnet convnext_tiny densenet121 efficientnet_b0 googlenet lraspp_mobilenet_v3_large mnasnet0_5 mobilenet_v2
mobilenet_v3_small regnet_y_400mf resnet18 resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_1 swin_t vgg11_bn
"""
TIMM = """
coat_lite_tiny crossvit_tiny_240 deit_tiny_patch16_224 edgenext_xx_small efficientvit_b0 fastvit_t8 ghostnet_050
levit_128s mixer_s32_224 mobilevit_xxs pit_ti_224 poolformer_s12 pvt_v2_b0 repvgg_a0 resnet10t seresnet18
xcit_nano_12_p16_224
"""
TRANSFORMERS = """
Albert Bart Bert Bloom DistilBert Electra Falcon GPT2 GPTNeoX Gemma Llama Mistral MPNet OPT Phi Qwen2 Roberta T5 ViT
"""
# Configurations name their sizes differently, so each gets those that it has.
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


def images(size: int = 64) -> list[Tensor]:
    return [torch.rand(2, 3, size, size) for _ in range(BATCHES)]


def of_torchvision(name: str) -> tuple[nn.Module, list[Tensor]]:
    options = {"weights_backbone": None} if "lraspp" in name else {}
    return importlib.import_module("torchvision.models").get_model(name, weights=None, **options), images()


def of_timm(name: str) -> tuple[nn.Module, list[Tensor]]:
    model = importlib.import_module("timm").create_model(name, num_classes=10)
    return model, images(model.default_cfg["input_size"][-1])


class _Seq2Seq(nn.Module):
    """Gives an encoder and its decoder the same words."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Tensor) -> Any:
        return self.model(words, decoder_input_ids=words)


def of_transformers(name: str) -> tuple[nn.Module, list[Tensor]]:
    package = importlib.import_module("transformers")
    config = getattr(package, f"{name}Config")
    known = config()
    sizes = {key: size for size, keys in SIZES.items() for key in keys.split() if hasattr(known, key)}
    model = getattr(package, f"{name}Model")(config(**sizes))
    if name == "ViT":
        return model, images()
    words = [torch.randint(1, 100, (2, 6)) for _ in range(BATCHES)]
    return _Seq2Seq(model) if model.config.is_encoder_decoder else model, words


def architectures() -> Iterator[tuple[str, Build]]:
    """Yield what the installed packages have."""
    yield from ((f"test {build.__name__}", build) for build in ARCHITECTURES)
    for package, names, build in (
        ("torchvision", TORCHVISION, of_torchvision),
        ("timm", TIMM, of_timm),
        ("transformers", TRANSFORMERS, of_transformers),
    ):
        if importlib.util.find_spec(package):
            yield from ((f"{package} {name}", partial(build, name)) for name in names.split())


def attempt(build: Build, device: str, way: Way, region: Callable[[], Any]) -> Results | str:
    """Return what a model gives, or the error that it raises."""
    try:
        return run(build, device, way, region)
    except Exception as error:  # whatever an architecture raises is a finding, where stock does not raise it too
        return f"{type(error).__name__}: {error}".splitlines()[0]


def verdict(build: Build, device: str, way: Way) -> str:
    """Return how a model under the policy's kernels compares with the same under stock kernels."""
    stock_region = partial(torch.autocast, device, dtype=torch.bfloat16)
    ours = attempt(build, device, way, partial(polycast.autocast, device, dtype=torch.bfloat16))
    with stock_kernels():
        stock = attempt(build, device, way, stock_region)
        if isinstance(ours, str) or isinstance(stock, str):
            return (
                f"both fail: {stock}" if isinstance(stock, str) and isinstance(ours, str) else f"FAILED: {ours}"[:200]
            )
        names = different(ours, stock)
        if not names:
            return "equal"
        again = attempt(build, device, way, stock_region)
    varies = [] if isinstance(again, str) else different(again, stock)
    if set(names) <= set(varies):
        return f"stock varies: in {len(varies)} tensors"
    return f"DIFFERENT: {len(names)} tensors, first {names[0]}"


def main(arguments: list[str]) -> int:
    """Run, print a table, and return whether anything was different or failed that does not under stock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="parts of names; without any, every architecture runs")
    parser.add_argument("--xla", action="store_true", help="run on XLA instead of the host")
    options = parser.parse_args(arguments)
    device = "xla" if options.xla else "cpu"
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    chosen = [
        (name, build)
        for name, build in architectures()
        if not options.parts or any(part in name for part in options.parts)
    ]
    cases = [(name, build, way) for name, build in chosen for way in WAYS]
    rows = []
    for name, build, way in (progress := tqdm(cases, leave=False)):
        progress.set_description(f"{name}, {way}")
        rows.append((f"{name}, {device}, {way}", verdict(build, device, way)))
    for name, found in rows:
        print(f"{name:60} {found}")
    counts = Counter(found.partition(":")[0] for _, found in rows)
    print(f"{len(rows)} cases: " + ", ".join(f"{found} {count}" for found, count in sorted(counts.items())))
    return int(counts["DIFFERENT"] + counts["FAILED"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
