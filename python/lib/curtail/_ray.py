"""Points of a grid as tasks of a Ray cluster.

A task computes the line of one point, and this process keeps the lines, as it does with lines that
it computes itself. The table is thus built in the same way, regardless of where and in which order
points ran.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from . import _curtail

_Asked = tuple[str, str, list[str], list[float]]


def run(
    core: _curtail.Sweep,
    asked: _Asked,
    missing: list[int],
    threads: int | None,
    in_flight: int | None,
    report: Callable[[int, int], object] | None,
) -> None:
    """Runs points, a bounded number of them at once, and keeps their lines as they arrive."""
    if not missing:
        return
    cpus = 1 if threads is None else threads
    if not 1 <= cpus <= 1024:
        raise ValueError(f"threads is {cpus}; give it 1 to 1024")
    if in_flight is not None and in_flight < 1:
        raise ValueError(f"in_flight is {in_flight}; give it 1 or more")
    ray = _imported()
    started = _connect(ray)
    pending: dict[Any, int] = {}
    try:
        most = in_flight or max(2, 2 * int(ray.cluster_resources().get("CPU", 1)) // cpus)
        task = ray.remote(num_cpus=cpus)(_line)
        left = iter(missing)
        total = sum(core.requests(point) for point in missing)
        done = 0
        while True:
            while len(pending) < most and (point := next(left, None)) is not None:
                pending[task.remote(_curtail.VERSION, asked, point, cpus)] = point
            if not pending:
                return
            ready, _ = ray.wait(list(pending), num_returns=1)
            for one in ready:
                # Even if it raises, it must not be cancelled below.
                point = pending.pop(one)
                core.append(_got(ray, one))
                done += core.requests(point)
            if report is not None:
                report(done, total)
    finally:
        if started:
            ray.shutdown()
        elif pending:
            # Ray aborts this process ("Tried to complete task that was not pending") if a task is
            # cancelled while it ends. Short tasks end now; a long one rarely ends as it is cancelled.
            _, running = ray.wait(list(pending), num_returns=len(pending), timeout=1)
            for one in running:
                ray.cancel(one)


def _imported() -> Any:
    # Do not send usage statistics without consent.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise ImportError('engine="ray" needs Ray; install it: pip install "curtail[ray]"') from error
    return ray


def _connect(ray: Any) -> bool:
    """Connects to a cluster or starts one. Returns whether this call did so."""
    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS", "local")
    if address != "local":
        ray.init(address=address, log_to_driver=False)
        return True
    ray.init(
        address="local",
        num_cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        _node_ip_address="127.0.0.1",
    )
    return True


def _got(ray: Any, one: Any) -> str:
    """Returns the result of a task. An exception of the task is raised here unchanged."""
    try:
        line: str = ray.get(one)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    return line


def _line(version: str, asked: _Asked, point: int, threads: int) -> str:
    """The task: computes the line of a point."""
    if version != _curtail.VERSION:
        raise ValueError(
            f"this node has curtail {_curtail.VERSION}, but the sweep was started with {version}; "
            "install the same version on all nodes"
        )
    parameters, grid, policies, percentiles = asked
    core = _sweep(parameters, grid, tuple(policies), tuple(percentiles))
    return core.line(point, threads)


@lru_cache(maxsize=1)
def _sweep(
    parameters: str, grid: str, policies: tuple[str, ...], percentiles: tuple[float, ...]
) -> _curtail.Sweep:
    """Returns a sweep. It is cached, because a process runs many points of the same sweep."""
    return _curtail.Sweep(parameters, grid, list(policies), list(percentiles), False)
