"""A grid gives the same bytes in the command line, here, after a kill, and on Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import curtail

from .conftest import GRID, GRID_OF, POLICIES, Shell, flags

TABLES = ("sweep.json", "results.csv", "results.parquet")


def ipc(table: pa.Table) -> bytes:
    """Returns a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def tables(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in TABLES]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, Path]:
    """Runs the grid on this machine."""
    out = tmp_path_factory.mktemp("local") / "out"
    return curtail.sweep(GRID, POLICIES, **GRID_OF, out=out), out


def test_the_table_is_in_the_order_of_the_grid(local: tuple[pa.Table, Path]) -> None:
    table, out = local
    assert table.num_rows == 6 * 2
    assert table["point"].to_pylist() == [point for point in range(6) for _ in POLICIES]
    assert table["p"].to_pylist()[::4] == [0.001, 0.001, 0.1]
    assert table["utilization"].to_pylist()[:6:2] == [0.1, 0.3, 0.5]
    assert table["policy"].to_pylist()[:2] == POLICIES
    assert pq.read_table(out / "results.parquet").equals(table)
    alone = curtail.simulate(POLICIES, **{**GRID_OF, "jitter": "bimodal:0.1:15", "utilization": 0.3})
    assert table.slice(8, 2)["request.p99"].equals(alone["request.p99"])


def test_bytes_are_those_of_the_command_line(
    local: tuple[pa.Table, Path], shell: Shell, tmp_path: Path
) -> None:
    grid = ["--grid=p=0.001,0.1", "--grid=utilization=0.1,0.3,0.5"]
    shell("sweep", *flags(GRID_OF), *grid, f"--out={tmp_path}")
    assert (tmp_path / "results.csv").read_bytes() == (local[1] / "results.csv").read_bytes()
    assert (tmp_path / "sweep.json").read_bytes() == (local[1] / "sweep.json").read_bytes()
    # A sweep that the command line began can continue here.
    assert curtail.sweep(GRID, POLICIES, **GRID_OF, out=tmp_path).equals(local[0])


def test_bytes_do_not_depend_on_threads_or_a_directory(local: tuple[pa.Table, Path]) -> None:
    for threads in (1, 5):
        table = curtail.sweep(GRID, POLICIES, **GRID_OF, threads=threads)
        assert ipc(table) == ipc(local[0])


def test_a_sweep_on_ray_gives_the_same_bytes(local: tuple[pa.Table, Path], tmp_path: Path) -> None:
    reports: list[tuple[int, int]] = []
    table = curtail.sweep(
        GRID,
        POLICIES,
        **GRID_OF,
        engine="ray",
        out=tmp_path / "ray",
        in_flight=3,
        progress=lambda done, total: reports.append((done, total)),
    )
    assert ipc(table) == ipc(local[0])
    assert tables(tmp_path / "ray") == tables(local[1])
    requests = 6 * 2 * 3 * 2000
    assert reports[-1] == (requests, requests) and len(reports) == 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Starts a cluster that sweeps use and do not shut down."""
    import ray

    from curtail import _ray

    _ray._connect(ray)
    yield ray
    ray.shutdown()


def test_an_exception_on_ray_is_raised_here(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ray may abort the process if a task that just ended is cancelled.
    cancelled: list[Any] = []
    monkeypatch.setattr(cluster, "cancel", cancelled.append)
    times = tmp_path / "times.txt"
    times.write_text("1\n" * 20)

    def drop(done: int, total: int) -> None:
        times.unlink(missing_ok=True)

    with pytest.raises(ValueError, match="at seed = .*times.txt"):
        curtail.sweep(
            {"seed": "1..40:1"},
            "psq",
            service=f"file:{times}",
            shards=1,
            requests=100,
            engine="ray",
            in_flight=1,
            progress=drop,
        )
    assert cluster.is_initialized(), "it was not started there"
    assert not cancelled, "the only task has ended"


def test_nodes_with_another_version_are_refused() -> None:
    from curtail import _ray

    with pytest.raises(ValueError, match="this node has curtail .* but the sweep was started with 0.0.0"):
        _ray._line("0.0.0", ("{}", "[]", [], []), 0, 1)


def test_without_ray_the_mend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'needs Ray; install it: pip install "curtail\[ray\]"'):
        curtail.sweep({"seed": [1]}, "psq", requests=100, engine="ray")


KILLED = """
import os, signal, sys
import curtail
from tests.conftest import GRID, GRID_OF, POLICIES

out = sys.argv[1]
lines = os.path.join(out, "results.jsonl")

def kill(done, total):
    with open(lines, "rb") as file:
        if file.read().count(b"\\n") >= 2:
            os.kill(os.getpid(), signal.SIGKILL)

curtail.sweep(GRID, POLICIES, **{**GRID_OF, "requests": 60_000}, out=out, threads=1, progress=kill)
"""


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_sweep_goes_on_after_a_kill(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "ray":
        request.getfixturevalue("cluster")
    longer = {**GRID_OF, "requests": 60_000}
    out = tmp_path / "killed"
    package = Path(__file__).parent.parent
    killed = subprocess.run([sys.executable, "-c", KILLED, str(out)], cwd=package)
    assert killed.returncode == -signal.SIGKILL
    begun = (out / "results.jsonl").read_bytes()
    assert 2 <= begun.count(b"\n") < 6 and not (out / "results.csv").exists()
    # An incomplete line does not count.
    (out / "results.jsonl").write_bytes(begun + b'{"point":5,"gr')
    table = curtail.sweep(GRID, POLICIES, **longer, out=out, engine=engine)  # type: ignore[arg-type]
    assert (out / "results.jsonl").read_bytes().startswith(begun)
    whole = tmp_path / "whole"
    assert ipc(table) == ipc(curtail.sweep(GRID, POLICIES, **longer, out=whole))
    assert tables(out) == tables(whole)


def test_an_interrupted_sweep_keeps_what_is_done(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if (tmp_path / "results.jsonl").read_bytes():
            os.kill(os.getpid(), signal.SIGINT)

    grid = {"requests": [1000, 100_000_000]}
    with pytest.raises(KeyboardInterrupt):
        curtail.sweep(grid, "psq", shards=1, out=tmp_path, threads=1, progress=interrupt)
    kept = (tmp_path / "results.jsonl").read_bytes()
    assert kept.startswith(b'{"point":0,') and kept.count(b"\n") == 1


@pytest.mark.parametrize(
    "values",
    [
        [0.1, 0.2, 0.3],
        (0.1, 0.2, 0.3),
        np.array([0.1, 0.2, 0.3]),
        pa.array([0.1, 0.2, 0.3]),
        "0.1,0.2,0.3",
        "0.1..0.3:0.1",
        {"from": 0.1, "to": 0.3, "step": 0.1},
        {"from": 0.1, "to": 0.3, "count": 3},
    ],
)
def test_values_may_be_written_in_many_ways(values: object) -> None:
    table = curtail.sweep({"utilization": values}, "psq", shards=1, requests=100)
    assert table["utilization"].to_pylist() == [0.1, 0.2, 0.3]


def test_keys_have_the_names_of_parameters() -> None:
    grid = {"warm_up": [0, 0.5], "speeds": [[1, 1], [1, 0.5]], "seed": range(2)}
    table = curtail.sweep(grid, "psq", shards=1, requests=100)
    assert table.num_rows == 8
    assert table.column_names[:4] == ["point", "warm-up", "speeds", "seed"]
    assert table["speeds"].to_pylist()[:4:2] == ["1,1", "1,0.5"]
    # Two parameters have other names as flags.
    grid = {"warmup": [0.5], "service_time": ["exp:1", "exp:2"]}
    table = curtail.sweep(grid, "psq", shards=1, requests=100)
    assert table.column_names[:3] == ["point", "warmup", "service-time"]
    fixed = curtail.sweep({"seed": [42]}, "psq", shards=1, requests=100, service_time="exp:2", warmup=0.5)
    assert fixed["request.mean"].to_pylist() == table["request.mean"].to_pylist()[1:]


@pytest.mark.parametrize(
    ("grid", "more", "words"),
    [
        ({}, {}, 'the grid is empty; vary something, such as {"utilization": [0.1, 0.2]}'),
        ({"x": [1]}, {}, "grid x: no parameter has this name"),
        ({"shards": [1.5]}, {}, "grid shards: 1.5 is not valid; use whole numbers"),
        ({"shards": [1, 0]}, {}, "at shards = 0: shards is 0; use 1 to 100000"),
        ({"shards": []}, {}, "grid shards: the list is empty"),
        ({"shards": 5}, {}, "grid shards is 5; give a list, such as [5]"),
        ({"shards": [True]}, {}, "grid shards: true must be a number or a string"),
        ({"seed": {"from": 1}}, {}, "write {"),
        ({"seed": [1]}, {"jitter": "bimodal:{p}:1"}, 'the grid has no p; add it: "p": [1, 2]'),
        ({"seed": [1]}, {"engine": "dask"}, "engine is 'dask'; give it \"local\" or \"ray\""),
        ({"seed": [1]}, {"engine": "ray", "in_flight": 0}, "in_flight is 0; give it 1 or more"),
        ({"seed": [1]}, {"engine": "ray", "threads": 0}, "threads is 0; give it 1 to 1024"),
    ],
)
def test_a_bad_grid_is_named(grid: dict[str, object], more: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError) as raised:
        curtail.sweep(grid, "psq", **more)  # type: ignore[arg-type]
    assert words in str(raised.value)


def test_parameters_that_do_not_exist_are_refused() -> None:
    with pytest.raises(TypeError, match="'shard'"):
        curtail.sweep({"seed": [1]}, shard=5)


def test_another_sweep_needs_another_directory_or_a_restart(tmp_path: Path) -> None:
    def run(seed: int, restart: bool = False) -> pa.Table:
        grid = {"utilization": [0.1, 0.2]}
        asked = {"shards": 1, "requests": 100, "seed": seed, "restart": restart}
        return curtail.sweep(grid, "psq", out=tmp_path, **asked)  # type: ignore[arg-type]

    first = run(1)
    with pytest.raises(ValueError) as raised:
        run(2)
    assert "contains another sweep: seed is 1 there and 2 here; give another out" in str(raised.value)
    assert not run(2, restart=True).equals(first)


def test_a_directory_has_one_writer(tmp_path: Path) -> None:
    messages: list[str] = []

    def meanwhile(done: int, total: int) -> None:
        try:
            curtail.sweep({"seed": [1]}, "psq", requests=100, out=tmp_path)
        except OSError as error:
            messages.append(str(error))
        raise LookupError

    with pytest.raises(LookupError):
        curtail.sweep({"seed": [1]}, "psq", requests=100_000_000, out=tmp_path, progress=meanwhile)
    assert "another sweep is writing this file; wait until it ends" in messages[0]
    with pytest.raises(OSError, match="cannot be written"):
        curtail.sweep({"seed": [1]}, "psq", requests=100, out="/dev/null/x")
