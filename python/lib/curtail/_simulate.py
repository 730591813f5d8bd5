"""The simulation of one experiment."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from . import _asked, _curtail, _table
from ._progress import Progress, following


def simulate(
    policy: _asked.Policies = _asked.POLICIES,
    *,
    shards: int = 50,
    replicas: int = 2,
    slots: int = 1,
    utilization: float = 0.3,
    utilization_of: str = "mean",
    service_time: str | None = None,
    jitter: str | None = None,
    jitter_of: str = "copy",
    hint_error: float | None = None,
    arrivals: str = "poisson",
    requests: int = 100_000,
    warmup: float | None = None,
    replications: int = 6,
    seed: int = 42,
    queue: int = 100_000,
    network: str | None = None,
    speeds: Sequence[float] = (),
    slowdown: str | None = None,
    outage: str | None = None,
    cancel_cost: str | None = None,
    change: str | Sequence[str] = (),
    change_at: int | None = None,
    window: int | None = None,
    service: str | None = None,
    warm_up: float | None = None,
    percentiles: Sequence[float] = _asked.PERCENTILES,
    threads: int | None = None,
    progress: Progress = None,
) -> pa.Table:
    """Simulates a replicated service, with the same policies that the proxy runs.

    A request sends a query to every shard and takes as long as the slowest query. A query's service
    time is S = P + J: P (``service_time``) is its own, J (``jitter``) is the time that each copy
    adds. All policies get the same arrivals and the same random draws, so differences come from the
    policies alone. The same seed gives the same figures on any number of threads; only
    ``elapsed_s`` depends on this machine.

    Returns a row per policy, with the fields of ``curtail sim --json``. Latencies of an unstable
    policy are null, and so are percentiles with fewer than ten samples above them.

    policy
        One name or several, as in the configuration of the proxy; ``idealized`` and the bound
        ``o1`` exist only here. The columns ``versus_first`` compare each policy with the first one.
    shards, replicas, slots
        The number of shards, of replicas per shard, and of queries that a replica serves at once.
    utilization, utilization_of
        The utilization of the replicas by first copies, a fraction: without jitter (``"mean"``) or
        with it (``"total"``).
    service_time, jitter, network
        Distributions, such as ``"exp:5ms"``, ``"bimodal:0.001:15"``, ``"file:PATH"``. ``network``
        is the one-way latency between balancer and replica.
    jitter_of
        ``"copy"``: each copy has its own jitter. ``"query"``: all copies of a query share it.
    hint_error
        Each query has a hint of its P, which is off by a factor of exp(``hint_error`` · Z), with Z
        standard normal. None: no hints.
    arrivals
        ``"poisson"``, ``"constant"``, ``"mmpp:FACTOR:SHARE:LENGTH"``, ``"on-off:SHARE:LENGTH"``
        or ``"trace:PATH"``.
    requests, warmup, replications
        The number of requests of each replication, the share of them that is not measured (default
        0.1), and the number of independent replications for the confidence intervals.
    seed
        Determines all random draws.
    queue
        The maximum number of queries that wait per shard, or of copies at its replicas. A run that
        exceeds it is unstable.
    speeds, slowdown, outage, cancel_cost
        The speed of each replica; its slow periods (``EVERY/LASTS/SPEED``) and failures
        (``EVERY/LASTS``); the time that a replica needs to stop a copy.
    change, change_at, window
        One or more changes during the run (``"jitter=bimodal:0.01:15"``, ``"service=exp:2"``,
        ``"speeds=1,0.5"``); the number of the request at which they start (default: the first
        measured one); and the number of requests per window for the column ``windows``, which
        contains the latencies from then on as JSON.
    service, warm_up
        Other names of ``service_time`` and ``warmup``.
    percentiles
        The percentiles to report.
    threads
        The number of threads. None: one per core.
    progress
        A function that is called with the amount done and the total, or whether to show a bar.

    Raises ValueError for bad input, with the value and the fix, and KeyboardInterrupt after Ctrl-C.
    """
    given = _asked.parameters(
        {
            "shards": shards,
            "replicas": replicas,
            "slots": slots,
            "utilization": utilization,
            "utilization_of": utilization_of,
            "service_time": service_time,
            "service": service,
            "jitter": jitter,
            "jitter_of": jitter_of,
            "hint_error": hint_error,
            "arrivals": arrivals,
            "requests": requests,
            "warmup": warmup,
            "warm_up": warm_up,
            "replications": replications,
            "seed": seed,
            "queue": queue,
            "network": network,
            "speeds": speeds,
            "slowdown": slowdown,
            "outage": outage,
            "cancel_cost": cancel_cost,
            "change": [change] if isinstance(change, str) else change,
            "change_at": change_at,
            "window": window,
        }
    )
    names = _asked.policies(policy)
    with following(progress, "simulating") as report:
        table = _curtail.simulate(given, names, list(percentiles), threads, report)
    return pa.Table.from_batches([_table.batch(table)])
