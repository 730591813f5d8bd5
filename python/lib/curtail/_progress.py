"""Progress reports for work that takes more than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

#: A function that is called with the amount done and the total, or whether to show a bar. None shows
#: a bar if stderr is a terminal.
Progress = Callable[[int, int], object] | bool | None

#: Work that ends sooner shows no bar.
BAR_DELAY_S = 2.0


class Bar:
    """A bar on stderr: tqdm's if it is installed, otherwise a line with a percentage."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._start = time.monotonic()
        self._bar: Any = None
        self._shown: str | None = None

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._start < BAR_DELAY_S or total == 0:
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
    """Shows nothing, and passes on the caller's function if there is one."""

    def __init__(self, report: Callable[[int, int], object] | None) -> None:
        self._report = report

    def __enter__(self) -> Callable[[int, int], object] | None:
        return self._report

    def __exit__(self, *_: object) -> None:
        pass


def following(progress: Progress, what: str) -> Bar | Silence:
    """Returns a context manager that reports the progress of work."""
    if callable(progress):
        return Silence(progress)
    shown = sys.stderr.isatty() if progress is None else progress
    return Bar(what) if shown else Silence(None)


def _tqdm(what: str, total: int) -> Any:
    """Returns a bar of tqdm, or False if it is not installed."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return False
    return tqdm(desc=what, total=total, unit=" requests", unit_scale=True, leave=False)
