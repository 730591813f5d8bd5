"""Shared by the tests: a small experiment, and the command line as the reference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

#: A short experiment with two policies, one of which hedges.
SMALL: dict[str, Any] = {
    "shards": 3,
    "requests": 2000,
    "replications": 3,
    "jitter": "bimodal:0.01:15",
    "seed": 7,
}
POLICIES = ["psq", "laedge:cc"]

#: A grid of six points.
GRID: dict[str, Any] = {"p": [0.001, 0.1], "utilization": [0.1, 0.3, 0.5]}
GRID_OF: dict[str, Any] = {**SMALL, "jitter": "bimodal:{p}:15"}


@pytest.fixture(scope="session")
def curtail_binary() -> str:
    """The path of the command line. Tests that compare with it are skipped without it."""
    binary = os.environ.get("CURTAIL_BINARY")
    if not binary:
        pytest.skip("CURTAIL_BINARY names no curtail; cargo xtask python builds one and names it")
    return binary


Shell = Callable[..., Any]


@pytest.fixture(scope="session")
def shell(curtail_binary: str) -> Shell:
    """Runs a verb with ``--json`` and returns its output."""

    def run(*args: str, cwd: Path | None = None) -> Any:
        command = [curtail_binary, *args, "--json"]
        done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=cwd)
        return json.loads(done.stdout)

    return run


def flags(parameters: dict[str, Any], policies: list[str] = POLICIES) -> list[str]:
    """Returns the parameters and policies as flags of the command line."""
    named = [f"--{name.replace('_', '-')}={value}" for name, value in parameters.items()]
    return named + [f"--policy={policy}" for policy in policies]


def dig(document: Any, column: str) -> Any:
    """Returns the value in a document at the path that is a column's name."""
    for part in column.split("."):
        document = None if document is None else document.get(part)
    return document


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Installs a handler for SIGINT, because tests send it and background processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
