"""Progress of what takes more than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

#: A function that is called with what is done and how much there is, or whether to show a bar. None:
#: a bar, where a person is looking.
Progress = Callable[[int, int], object] | bool | None

#: What is over sooner is not worth a bar.
PATIENCE_S = 2.0


class Bar:
    """A bar on stderr: tqdm's where that is installed, else a line with a percentage."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._start = time.monotonic()
        self._bar: Any = None
        self._shown: str | None = None

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._start < PATIENCE_S or total == 0:
            return
        if self._bar is None:
            self._bar = _tqdm(self._what, total)
        if self._bar:
            self._bar.update(done - self._bar.n)
            return
        text = f"{self._what} {100 * done // total} %"
        if text != self._shown:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
            self._shown = text

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.close()
        elif self._shown is not None:
            print("\r" + " " * len(self._shown) + "\r", end="", file=sys.stderr, flush=True)


class Silence:
    """Nothing is told, or a function of the caller's is called."""

    def __init__(self, told: Callable[[int, int], object] | None) -> None:
        self._told = told

    def __enter__(self) -> Callable[[int, int], object] | None:
        return self._told

    def __exit__(self, *_: object) -> None:
        pass


def following(progress: Progress, what: str) -> Bar | Silence:
    """What follows the work, for a ``with``."""
    if callable(progress):
        return Silence(progress)
    shown = sys.stderr.isatty() if progress is None else progress
    return Bar(what) if shown else Silence(None)


def _tqdm(what: str, total: int) -> Any:
    """A bar of tqdm's; false where it is not installed."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return False
    return tqdm(desc=what, total=total, unit=" requests", unit_scale=True, leave=False)
