"""The time of calls on a device."""

from collections.abc import Callable
from time import perf_counter

from polycast import backends


def seconds_of(call: Callable[[], object], number: int, device_type: str) -> float:
    """Return the seconds of one of so many calls, from an idle device to an idle device."""
    backends.synchronize(device_type)
    start = perf_counter()
    for _ in range(number):
        result = call()  # held, as a device that runs what was traced leaves out what nobody holds
        backends.synchronize(device_type, wait=False)
    backends.synchronize(device_type)
    seconds = perf_counter() - start
    del result
    return seconds / number
