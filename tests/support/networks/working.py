"""Trainings that work under autocast: convolutions on digits, and transformers on text that ships with Python."""

import argparse
import inspect
from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.support.networks.training import Batch, Training, training

CONTEXT = 64  # characters
WIDTH = 64


class Digits(nn.Sequential):
    """The network of examples/digits.py."""

    def __init__(self) -> None:
        first = (nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        second = (nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        super().__init__(*first, *second, nn.Linear(64 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10))


class Characters(nn.Module):
    """A transformer of two layers that predicts the next character."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(count, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, count)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, text: Tensor) -> Tensor:
        x = self.letters(text) + self.places.weight
        return self.head(self.layers(x, mask=self.mask, is_causal=True))  # type: ignore[no-any-return]


def digits(device: str, dtype: torch.dtype | None, steps: int = 20) -> Training:
    """The digits of scikit-learn, 64 in a batch."""
    return training("digits", Digits, classify, images(64, steps), device, dtype)


def resnet(device: str, dtype: torch.dtype | None, steps: int = 20) -> Training:
    """torchvision's ResNet, of a block for each width, on the digits as images of 32 x 32 pixels, 16 in a batch."""
    models = pytest.importorskip("torchvision.models.resnet", reason="torchvision is not installed")

    def build() -> nn.Module:
        network: nn.Module = models.ResNet(models.BasicBlock, [1, 1, 1, 1], num_classes=10)
        return network

    batches: list[Batch] = []
    for pixels, labels in images(16, steps):
        batches.append((F.interpolate(pixels, (32, 32)).expand(-1, 3, -1, -1), labels))
    return training("resnet", build, classify, batches, device, dtype)


def characters(device: str, dtype: torch.dtype | None, steps: int = 20) -> Training:
    """A transformer on the source of a module of Python, 16 texts in a batch."""
    text, count = _text()
    batches: list[Batch] = [(part[:, :-1], part[:, 1:]) for part in _parts(text, 16, CONTEXT + 1, steps)]
    return training("characters", lambda: Characters(count), _predict, batches, device, dtype)


def bert(device: str, dtype: torch.dtype | None, steps: int = 20) -> Training:
    """A small BERT of transformers with random weights, which finds hidden characters, 16 texts in a batch."""
    package = pytest.importorskip("transformers", reason="transformers is not installed")
    text, count = _text()
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 4 * WIDTH}
    config = package.BertConfig(**sizes, vocab_size=count + 1, max_position_embeddings=CONTEXT)
    draw = torch.Generator().manual_seed(0)
    batches: list[Batch] = []
    for words in _parts(text, 16, CONTEXT, steps):
        hidden = torch.rand(words.shape, generator=draw) < 0.15
        batches.append((words.masked_fill(hidden, count), words.masked_fill(~hidden, -100)))

    def find(model: nn.Module, words: Tensor, labels: Tensor) -> Tensor:
        return model(input_ids=words, labels=labels).loss  # type: ignore[no-any-return]

    return training("bert", lambda: package.BertForMaskedLM(config), find, batches, device, dtype)


def classify(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(model(images), labels)


def _predict(model: nn.Module, text: Tensor, following: Tensor) -> Tensor:
    return F.cross_entropy(model(text).flatten(0, 1), following.flatten())


def images(size: int, steps: int) -> list[Batch]:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    pixels, labels = (torch.from_numpy(array) for array in datasets.load_digits(return_X_y=True))
    inputs = (pixels / 16).float().view(-1, 1, 8, 8)
    draw = torch.Generator().manual_seed(0)
    chosen = (torch.randint(len(labels), (size,), generator=draw) for _ in range(steps))
    return [(inputs[part], labels[part]) for part in chosen]


@cache
def _text() -> tuple[Tensor, int]:
    """Return the numbers of the characters of a long text, and how many characters there are."""
    text = inspect.getsource(argparse)
    number = {letter: index for index, letter in enumerate(sorted(set(text)))}
    return torch.tensor([number[letter] for letter in text]), len(number)


def _parts(text: Tensor, size: int, length: int, steps: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    starts = (torch.randint(len(text) - length, (size, 1), generator=draw) for _ in range(steps))
    return [text[start + torch.arange(length)] for start in starts]


WORKING: dict[str, Callable[..., Training]] = {
    "digits": digits,
    "characters": characters,
    "resnet": resnet,
    "bert": bert,
}
