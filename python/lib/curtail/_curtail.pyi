"""The compiled part, whose source is in src/."""

from collections.abc import Callable

VERSION: str

Columns = list[list[bool | None] | list[int | None] | list[float | None] | list[str | None]]
Table = tuple[list[tuple[str, str]], Columns]
Report = Callable[[int, int], object]
Given = tuple[list[float], str | None] | str

def simulate(
    parameters: str,
    policies: list[str],
    percentiles: list[float],
    threads: int | None,
    progress: Report | None,
) -> Table: ...
def advise(
    parameters: str,
    samples: Given | None,
    cancel: bool,
    threads: int | None,
    progress: Report | None,
) -> str: ...
def fit(samples: Given, by: str) -> str: ...

class Sweep:
    def __init__(
        self,
        parameters: str,
        grid: str,
        policies: list[str],
        percentiles: list[float],
        check: bool,
    ) -> None: ...
    def open(self, out: str | None, restart: bool) -> list[int]: ...
    def requests(self, point: int) -> int: ...
    def run(self, points: list[int], threads: int | None, progress: Report | None) -> None: ...
    def line(self, point: int, threads: int) -> str: ...
    def append(self, line: str) -> None: ...
    def finish(self, take: Callable[[Table], object]) -> None: ...
    def close(self) -> None: ...
