"""One experiment."""

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
    """Simulates a replicated service, with the very policies that the proxy runs.

    Requests arrive, ask every shard, and take as long as the slowest query. A query's service time is
    S = P + J: P (``service_time``) is its own, J (``jitter``) is what each copy adds. All policies meet the
    same arrivals and the same draws, so their differences are theirs. The same seed gives the same
    figures on any number of threads; ``elapsed_s`` alone is about this machine.

    Returns a row per policy, with the fields of ``curtail sim --json``. Latencies of a policy that is
    not stable are null, as are percentiles with fewer than ten samples above them.

    policy
        One name or several, as in the configuration of the proxy; ``idealized`` and the bound ``o1``
        exist here only. The columns ``versus_first`` compare with the first one.
    shards, replicas, slots
        Shards that every request asks, replicas of each, queries that a replica serves at once.
    utilization, utilization_of
        Of the replicas by first copies, a fraction: without jitter (``"mean"``) or with (``"total"``).
    service_time, jitter, network
        Distributions, as ``"exp:5ms"``, ``"bimodal:0.001:15"``, ``"file:PATH"``. ``network`` is the
        latency between balancer and replica, one way.
    jitter_of
        Whose the jitter is: each copy's own (``"copy"``), or the query's (``"query"``), so that all of
        its copies share it.
    hint_error
        Each query comes with a hint of its P, which is off by a factor of exp(``hint_error`` · Z), Z
        standard normal; without hints where it is left open.
    arrivals
        ``"poisson"``, ``"constant"``, ``"mmpp:FACTOR:SHARE:LENGTH"``, ``"on-off:SHARE:LENGTH"``
        or ``"trace:PATH"``.
    requests, warmup, replications
        Requests of each replication, the share of them that is not measured (0.1), and independent
        replications, for the confidence intervals.
    seed
        Decides every draw.
    queue
        Queries that may wait per shard, or copies at its replicas; beyond it a run is
        unstable.
    speeds, slowdown, outage, cancel_cost
        The speed of each replica; slow stretches (``EVERY/LASTS/SPEED``) and failures
        (``EVERY/LASTS``) of each; how long one needs to stop a copy.
    change, change_at, window
        What is different from a request on (``"jitter=bimodal:0.01:15"``, ``"service=exp:2"``,
        ``"speeds=1,0.5"``, one or several), that request (the first that is measured where it is left
        open), and how many requests each window has in which latencies are told from then on: the
        column ``windows``, as JSON.
    service, warm_up
        Other names of ``service_time`` and ``warmup``.
    percentiles
        Those that are told.
    threads
        All cores, where it is left open.
    progress
        A function of what is done and how much there is, or whether to show a bar.

    Raises ValueError where something is wrong, with the value and the mend, and KeyboardInterrupt
    after a Ctrl-C.
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
    with following(progress, "simulating") as told:
        table = _curtail.simulate(given, names, list(percentiles), threads, told)
    return pa.Table.from_batches([_table.batch(table)])
