"""Tools to inspect and debug autocast: the dtypes of each call, errors relative to float32, and the source of NaNs.

- :class:`trace` records each call in a region, with its rule and its casts.
- :func:`bisect` finds the rules that make a program fail.
- :func:`compare` returns the errors of a program's ops relative to a reference run, by default in float32.
- :func:`verify` checks the built-in rules and the sync-free steps on a device.
- :class:`watch` finds the ops that make infinities and NaNs.

The other classes are the types of the results and of their parts.
"""

from polycast.debug.bisecting import bisect
from polycast.debug.bisection import Bisection, Culprit
from polycast.debug.calls import Call, Cast, Site
from polycast.debug.comparing import Comparison, Error, compare
from polycast.debug.findings import Finding
from polycast.debug.tensor_stats import Magnitude
from polycast.debug.tracing import OpTotal, OpTotals, trace
from polycast.debug.watching import Flushed, watch
from polycast.verify import Check, Verification, verify

__all__ = [
    "Bisection",
    "Call",
    "Cast",
    "Check",
    "Comparison",
    "Culprit",
    "Error",
    "Finding",
    "Flushed",
    "Magnitude",
    "OpTotal",
    "OpTotals",
    "Site",
    "Verification",
    "bisect",
    "compare",
    "trace",
    "verify",
    "watch",
]


def __dir__() -> list[str]:
    return __all__
