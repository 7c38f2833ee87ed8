"""Small models with random weights, most of them from public packages, and batches for the models."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.support.models.zoo import BATCHES, of_transformers, words


def resnet() -> tuple[nn.Module, list[Tensor]]:
    """Return a ResNet with in-place ReLUs and one block for each width, and the model's inputs."""
    resnet = pytest.importorskip("torchvision.models.resnet")
    return resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=10), _images()


def faster_rcnn() -> tuple[nn.Module, list[Any]]:
    """Return a two-stage detector with proposals, non-maximum suppression and pooled regions, and its inputs."""
    detection = pytest.importorskip("torchvision.models.detection")
    body = nn.Sequential(nn.Conv2d(3, 16, 3, stride=4), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
    body.out_channels = 16  # type: ignore[assignment]
    anchors = detection.rpn.AnchorGenerator(sizes=((16, 32),), aspect_ratios=((0.5, 1.0, 2.0),))
    head = detection.faster_rcnn.TwoMLPHead(16 * 7 * 7, 32)
    predictor = detection.faster_rcnn.FastRCNNPredictor(32, num_classes=5)
    detector = detection.FasterRCNN(
        body, rpn_anchor_generator=anchors, box_head=head, box_predictor=predictor, min_size=64, max_size=64
    )
    return _Targets(detector), _images()


class _Targets(nn.Module):
    """A module that trains a detector with the same two boxes for each image."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, images: Tensor) -> Any:
        boxes = torch.tensor([[5.0, 5.0, 40.0, 40.0], [10.0, 20.0, 50.0, 60.0]], device=images.device)
        target = {"boxes": boxes, "labels": torch.tensor([1, 2], device=images.device)}
        return self.detector(list(images), [target] * len(images) if self.training else None)


def bert() -> tuple[nn.Module, list[Tensor]]:
    """Return an encoder with layer norms and dropout, and the model's inputs."""
    return of_transformers("Bert")


def llama() -> tuple[nn.Module, list[Tensor]]:
    """Return a decoder with rotary positions, grouped queries, RMS norms and a cache, and the decoder's inputs."""
    return of_transformers("Llama")


def recurrent() -> tuple[nn.Module, list[Tensor]]:
    """Return a bidirectional LSTM, a GRU and a plain RNN in sequence, and the model's inputs."""
    return _Recurrent(), words(20)


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 8, num_layers=2, bidirectional=True, dropout=0.1)
        self.gru = nn.modules.rnn.GRU(16, 8)  # `torch_xla` replaces `torch.nn.GRU`.
        self.rnn = nn.RNN(8, 8)
        self.classes = nn.Linear(8, 3)

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words)
        for layer in (self.lstm, self.gru, self.rnn):
            x, _ = layer(x)
        return self.classes(x)  # type: ignore[no-any-return]


def _images() -> list[Tensor]:
    return [torch.rand(2, 3, 64, 64) for _ in range(BATCHES)]


ARCHITECTURES: list[Callable[[], tuple[nn.Module, list[Tensor]]]] = [resnet, faster_rcnn, bert]
ARCHITECTURES += [llama, recurrent]
