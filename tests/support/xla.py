"""Helpers for the tests on XLA: a mark, and counters of ``torch_xla``'s compilations and transfers."""

from typing import Any

import pytest

from tests.support.probe import HAS_XLA, NO_XLA

NEEDS_XLA = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)


class Traffic:
    """A counter of compilations and device-to-host transfers since its creation."""

    def __init__(self) -> None:
        from torch_xla.debug import metrics

        metrics.clear_all()
        self._metrics: Any = metrics

    def compiles(self) -> int:
        return int(self._metrics.counter_value("UncachedCompile") or 0)

    def reads(self) -> int:
        data = self._metrics.metric_data("TransferFromDeviceTime")
        return 0 if data is None else int(data[0])
