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

#: The parameters of an experiment: what :func:`simulate` takes, but for how it is run.
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

    Returns a row per point and policy, in the order of the grid: the point, its values, and the columns
    of :func:`simulate` but for those that are about the machine. The table does not depend on threads,
    on the engine, or on interruptions: not in a byte.

    grid
        What is varied: parameters of :func:`simulate`, or any other word that stands in braces in a
        text of theirs, as ``jitter="bimodal:{p}:15"``. The last key varies fastest. Values are a list,
        an array, a range ``{"from": 0.1, "to": 0.9, "step": 0.1}`` or ``{"from": 1e-5, "to": 0.1,
        "count": 9, "scale": "log"}``, or a text as ``--grid`` has it: ``"0.1..0.9:0.1"``.
    engine
        ``"local"``, or ``"ray"``: points are tasks of a Ray cluster, the one that this process is
        connected to or that ``RAY_ADDRESS`` names, or else one on this machine. Every node needs this
        package, in the same version, and the files that the experiment names.
    out
        A directory that keeps each point as soon as it is done, and tables when all are:
        ``results.parquet`` and ``results.csv``. The same call goes on where it was interrupted, as does
        ``curtail sweep`` with the same values.
    restart
        Drop the results that are there.
    threads
        All cores, where it is left open. On Ray: of each task, which takes as many CPUs; 1.
    in_flight
        On Ray: tasks that are handed over at once; twice as many as can run.
    policy, percentiles, progress, and all other parameters
        As of :func:`simulate`.
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
        with following(progress, "sweeping") as told:
            if engine == "ray":
                _ray.run(core, asked, missing, threads, in_flight, told)
            else:
                core.run(missing, threads, told)
        batches: list[pa.RecordBatch] = []
        core.finish(lambda table: batches.append(_table.batch(table)))
        table = pa.Table.from_batches(batches)
        if out is not None:
            _table.write_parquet(table, os.path.join(out, "results.parquet"))
    finally:
        # Others may write the directory from here on.
        core.close()
    return table


def _key(key: str) -> str:
    """Parameters have the names of their flags."""
    return key.replace("_", "-") if key in _PARAMETERS else key


def _values(key: str, values: Any) -> Any:
    """Values of a key; a list among them is one of speeds."""
    given = _asked.plain(f"grid {key}", values)
    if not isinstance(given, list):
        return given
    return [",".join(map(str, one)) if isinstance(one, list) else one for one in given]
