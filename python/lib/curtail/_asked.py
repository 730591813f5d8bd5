"""Converts arguments for the compiled part: strings and numbers, by the names of the flags."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

Policies = str | Sequence[str]

#: The policies compared by default, as in the command line.
POLICIES = ("psq", "laedge", "idealized", "o1")

#: The percentiles reported by default.
PERCENTILES = (50.0, 95.0, 99.0, 99.9)


@runtime_checkable
class _Array(Protocol):
    """An array of numpy, or a series of pandas."""

    def tolist(self) -> Any: ...


@runtime_checkable
class _Arrow(Protocol):
    """An array of pyarrow."""

    def to_pylist(self) -> Any: ...


def plain(name: str, value: Any) -> Any:
    """Converts a value to JSON types: numbers and arrays of numpy and Arrow to numbers and lists."""
    if isinstance(value, _Arrow):
        value = value.to_pylist()
    elif isinstance(value, _Array):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}; give it a finite number")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: plain(name, one) for key, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [plain(name, one) for one in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}; give it a string, a number or a list")


#: Parameters whose names in the command line and the compiled part differ. Both names are accepted.
_NAMES = {"service_time": "service", "warmup": "warm_up"}


def name(parameter: str) -> str:
    """Returns the name of a parameter in the compiled part."""
    return _NAMES.get(parameter, parameter).replace("_", "-")


def parameters(given: Mapping[str, Any]) -> str:
    """Serializes the parameters of an experiment, without those that are None."""
    given = {key: value for key, value in given.items() if value is not None}
    for key, other in _NAMES.items():
        if key in given and other in given:
            raise ValueError(f"{other} is another name of {key}; drop one")
    return json.dumps({name(key): plain(key, value) for key, value in given.items()})


def policies(given: Policies) -> list[str]:
    """Returns the names of the policies: one, or several."""
    return [given] if isinstance(given, str) else list(given)


def samples(given: Any, unit: str | None) -> tuple[list[float], str | None] | str:
    """Converts measured times: the path of a file, or numbers."""
    if isinstance(given, (str, os.PathLike)):
        if unit is not None:
            raise ValueError(f"unit is {unit!r}, but a file has its own unit; drop it")
        return os.fsdecode(given)
    if isinstance(given, _Arrow):
        given = given.to_pylist()
    elif isinstance(given, _Array):
        given = given.tolist()
    numbers = []
    for place, sample in enumerate(given):
        try:
            numbers.append(float(sample))
        except (TypeError, ValueError):
            raise ValueError(f"sample {place} is {sample!r}; give numbers") from None
    return numbers, unit
