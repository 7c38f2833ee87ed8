"""What a gradient scaler asks of the numbers that it is made with."""

from numbers import Integral, Real


def check_numbers(growth_interval: int, **numbers: float) -> None:
    """Raise what is wrong with a constructor's numbers, where torch's scaler says nothing or nothing clear.

    Raises:
        TypeError: One is no number, or ``growth_interval`` is not whole.
        ValueError: ``init_scale`` is not positive.
    """
    for name, value in numbers.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}; it takes a number")
    if not isinstance(growth_interval, Integral) or isinstance(growth_interval, bool):
        raise TypeError(f"growth_interval is {growth_interval!r}; it takes a whole number of steps")
    if not numbers["init_scale"] > 0:
        raise ValueError(f"init_scale is {numbers['init_scale']}; it takes a positive number")
