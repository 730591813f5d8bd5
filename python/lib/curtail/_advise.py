"""Advice on whether hedging would help."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from . import _asked, _curtail
from ._progress import Progress, following

_LATENCIES = pa.schema(
    [
        ("policy", pa.string()),
        ("stable", pa.bool_()),
        ("p50", pa.float64()),
        ("p99", pa.float64()),
        ("p999", pa.float64()),
        ("p99_ci95", pa.float64()),
        ("copies_per_query", pa.float64()),
    ]
)
_CURVE = pa.schema(
    [
        ("utilization", pa.float64()),
        ("psq", pa.float64()),
        ("hedging", pa.float64()),
        ("faster", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Gain:
    """The reduction of latency, by percentile: 0.4 is 40 % less. None if it is unknown."""

    p50: float | None
    p99: float | None
    p999: float | None


@dataclass(frozen=True)
class GainIntervals:
    """The 95 % confidence intervals of a gain, by percentile. None if it is unknown."""

    p50: tuple[float, float] | None
    p99: tuple[float, float] | None
    p999: tuple[float, float] | None


@dataclass(frozen=True)
class Hiccups:
    """The hiccups in the jitter."""

    probability: float
    """The probability of a hiccup, per copy."""
    duration: float
    """The mean length of a hiccup."""
    requests: float
    """The share of requests with a hiccup in some shard, without hedging."""
    lesser_of_two: float | None
    """The mean of the lesser jitter of two copies, divided by the mean jitter. It is near 1 if the
    jitters of copies are similar. None without jitter."""


@dataclass(frozen=True)
class Rival:
    """The best delayed hedge, compared with the recommended policy."""

    policy: str
    """The name of its policy."""
    p99: float | None
    """The 99th percentile of request latency. None without a steady state."""
    copies_per_query: float | None
    """The mean number of copies per query."""
    as_good: bool
    """Whether its p99 is within the interval of the recommended policy's, with no more copies. If
    hedging does not pay: whether it nevertheless lowers p99 by 5 % or more."""
    text: str
    """The comparison in words."""


@dataclass(frozen=True)
class Samples:
    """A summary of measured service times."""

    count: int
    """The number of samples."""
    with_hiccup: int
    """The number of samples with a hiccup."""
    probability: float
    """The share of samples with a hiccup."""
    probability_ci95: tuple[float, float]
    """The 95 % confidence interval of the probability."""
    duration: float
    """The mean length of a hiccup. Zero without hiccups."""
    duration_ci95: tuple[float, float] | None
    """The 95 % confidence interval of the duration. None if it is unknown."""
    assumes: str
    """The assumptions of the advice."""


@dataclass(frozen=True)
class Advice:
    """The advice. Its fields are those of ``curtail advise --json``."""

    hedge: bool
    """Whether hedging pays here."""
    policy: str
    """The recommended policy."""
    hedging_policy: str
    """The best policy that hedges, even if hedging does not pay."""
    gain: Gain
    """The gain of ``hedging_policy`` over per-shard queuing."""
    gain_ci95: GainIntervals
    """The intervals of the gain. They cover chance in the simulation and in the samples."""
    bound: Gain
    """A bound on the gain of any policy."""
    idealized: Gain
    """The gain of an idealized hedge, which can see the future."""
    stop_above_utilization: float | None
    """The utilization above which hedging is no longer faster. None if it is never faster."""
    settled: bool
    """False if other samples of the same service could easily change the advice."""
    confidence: float
    """The probability that the verdict is right. It covers chance in the simulation and in the
    samples."""
    because: str
    """The reasons, in words."""
    rival: Rival
    """The best delayed hedge, and whether it is as good as the recommended policy."""
    config: str
    """The matching part of a configuration of ``curtail proxy``."""
    utilization: float
    """The utilization for which the advice holds."""
    utilization_of: str
    """The meaning of utilizations: ``"mean"``, or ``"total"``. The latter includes the jitter and is
    used if nearly all of the service time is jitter."""
    unit: str
    """The unit of latencies: ``"ms"``, or ``"1"`` for the experiment's own unit."""
    hiccups: Hiccups
    """The hiccups in the jitter."""
    latencies: pa.Table
    """The simulated latencies at this load, a row per policy."""
    curve: pa.Table
    """The p99 of per-shard queuing and of ``hedging_policy`` as a function of load."""
    rate: float | None = None
    """The requests per second at this utilization. None if times have no units."""
    samples: Samples | None = None
    """The summary of the samples. None if none were passed."""


def advise(
    *,
    utilization: float,
    service_time: str | None = None,
    jitter: str | None = None,
    samples: Any = None,
    unit: str | None = None,
    shards: int = 1,
    replicas: int = 2,
    slots: int = 1,
    utilization_of: str = "mean",
    arrivals: str = "poisson",
    cancel: str = "none",
    seed: int = 42,
    service: str | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> Advice:
    """Computes whether hedging would help: by how much, with which policy, and up to which load.

    It simulates the policies at the given load, and the best of them over all loads, which takes
    some seconds. The advice may be not to hedge.

    utilization, utilization_of, shards, replicas, slots, arrivals, seed, threads, progress
        As in :func:`simulate`.
    service_time, jitter
        The distributions of P, a query's own service time, and of J, the time that each copy adds.
        ``service`` is another name of ``service_time``.
    samples, unit
        100 or more measured service times without queueing, which replace the distributions. They
        can have any form that :func:`fit` takes. Hiccups are found if they are much longer than
        the other samples. An output folder of ``curtail jitter`` is accepted as well.
    cancel
        What a replica does with a cancelled query: ``"none"`` (it continues) or ``"reset"`` (it
        stops).
    """
    if (service_time is None and service is None) == (samples is None):
        raise ValueError("give either service_time or samples")
    if samples is not None and jitter is not None:
        raise ValueError(f"jitter is {jitter!r}, and samples hold their own; drop one")
    if cancel not in ("none", "reset"):
        raise ValueError(f'cancel is {cancel!r}; give it "none" or "reset"')
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
            "arrivals": arrivals,
            "seed": seed,
        }
    )
    measured = None if samples is None else _asked.samples(samples, unit)
    with following(progress, "simulating") as report:
        text = _curtail.advise(given, measured, cancel == "reset", threads, report)
    return _advice(json.loads(text))


def _advice(answer: dict[str, Any]) -> Advice:
    for gain in ("gain", "bound", "idealized"):
        answer[gain] = Gain(**answer[gain])
    sure = answer["gain_ci95"].items()
    answer["gain_ci95"] = GainIntervals(**{name: of and tuple(of) for name, of in sure})
    answer["rival"] = Rival(**answer["rival"])
    answer["hiccups"] = Hiccups(**answer["hiccups"])
    answer["latencies"] = pa.Table.from_pylist(answer["latencies"], schema=_LATENCIES)
    answer["curve"] = pa.Table.from_pylist(answer["curve"], schema=_CURVE)
    if "samples" in answer:
        found = answer["samples"]
        for name in ("probability_ci95", "duration_ci95"):
            found[name] = found[name] and tuple(found[name])
        answer["samples"] = Samples(**found)
    return Advice(**answer)
