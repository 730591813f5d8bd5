"""A grid of experiments."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, Literal

import pyarrow as pa

from . import _asked, _curtail, _ray, _table
from ._progress import Progress, following
from ._simulate import simulate

#: The parameters of an experiment: those of :func:`simulate`, except for how it runs.
_PARAMETERS = set(signature(simulate).parameters) - {"policy", "percentiles", "threads", "progress"}


def sweep(
    grid: Mapping[str, Any],
    policy: _asked.Policies = _asked.POLICIES,
    *,
    engine: Literal["local", "ray"] = "local",
    out: str | os.PathLike[str] | None = None,
    restart: bool = False,
    percentiles: Sequence[float] = _asked.PERCENTILES,
    threads: int | None = None,
    in_flight: int | None = None,
    progress: Progress = None,
    **parameters: Any,
) -> pa.Table:
    """Simulates every combination of the values of a grid.

    Returns a row per point and policy, in the order of the grid: the point, its values, and the
    columns of :func:`simulate`, except for those about the machine. The table is the same to the
    byte, regardless of the number of threads, the engine and any interruptions.

    grid
        The values to vary, by key. A key is a parameter of :func:`simulate`, or any other word that
        appears in braces in the value of one, such as ``jitter="bimodal:{p}:15"``. The last key
        varies fastest. Values are a list, an array, a range ``{"from": 0.1, "to": 0.9, "step":
        0.1}`` or ``{"from": 1e-5, "to": 0.1, "count": 9, "scale": "log"}``, or a string in the form
        of ``--grid``: ``"0.1..0.9:0.1"``.
    engine
        ``"local"``, or ``"ray"``: points run as tasks of a Ray cluster. It is the one that this
        process is connected to, or the one at ``RAY_ADDRESS``, or else one on this machine. Every
        node needs the same version of this package, and the files that the experiment reads.
    out
        A directory that keeps each point as soon as it is done, and tables at the end:
        ``results.parquet`` and ``results.csv``. The same call continues after an interruption, and
        so does ``curtail sweep`` with the same values.
    restart
        Whether to drop existing results.
    threads
        The number of threads. None: one per core. On Ray: the number of threads, and of CPUs, of
        each task; 1 by default.
    in_flight
        On Ray: the maximum number of submitted tasks; by default twice the number that can run.
    policy, percentiles, progress, and all other parameters
        As in :func:`simulate`.
    """
    unknown = parameters.keys() - _PARAMETERS
    if unknown:
        raise TypeError(f"sweep() got an unexpected keyword argument {min(unknown)!r}")
    if engine not in ("local", "ray"):
        raise ValueError(f'engine is {engine!r}; give it "local" or "ray"')
    asked = (
        _asked.parameters(parameters),
        json.dumps([(_key(key), _values(key, values)) for key, values in grid.items()]),
        _asked.policies(policy),
        list(percentiles),
    )
    core = _curtail.Sweep(*asked, True)
    missing = core.open(None if out is None else os.fspath(out), restart)
    try:
        with following(progress, "sweeping") as report:
            if engine == "ray":
                _ray.run(core, asked, missing, threads, in_flight, report)
            else:
                core.run(missing, threads, report)
        batches: list[pa.RecordBatch] = []
        core.finish(lambda table: batches.append(_table.batch(table)))
        table = pa.Table.from_batches(batches)
        if out is not None:
            _table.write_parquet(table, os.path.join(out, "results.parquet"))
    finally:
        # After this, another sweep may write to the directory.
        core.close()
    return table


def _key(key: str) -> str:
    """Returns the name of a key: parameters have the names of their flags."""
    return key.replace("_", "-") if key in _PARAMETERS else key


def _values(key: str, values: Any) -> Any:
    """Converts the values of a key. A list among them is a value of ``speeds``."""
    given = _asked.plain(f"grid {key}", values)
    if not isinstance(given, list):
        return given
    return [",".join(map(str, one)) if isinstance(one, list) else one for one in given]
