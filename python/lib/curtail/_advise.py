"""Would hedging help?"""

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
    """By how much latency is lower: 0.4 is 40 % less. None where a percentile is not known."""

    p50: float | None
    p99: float | None
    p999: float | None


@dataclass(frozen=True)
class GainIntervals:
    """The 95 % confidence intervals of a gain. None where a percentile is not known."""

    p50: tuple[float, float] | None
    p99: tuple[float, float] | None
    p999: tuple[float, float] | None


@dataclass(frozen=True)
class Hiccups:
    """The hiccups in the jitter."""

    probability: float
    """Of a copy."""
    duration: float
    """Their mean length."""
    requests: float
    """The share of requests that one hits in some shard, where nothing hedges."""
    lesser_of_two: float | None
    """The lesser of the jitters of two copies, as a share of the mean jitter: near 1 where they are much
    alike. None without jitter."""


@dataclass(frozen=True)
class Rival:
    """The best delayed hedge beside the recommended policy."""

    policy: str
    """Its name."""
    p99: float | None
    """The 99th percentile of requests. None without a steady state."""
    copies_per_query: float | None
    """Copies per query."""
    as_good: bool
    """Its p99 is within the interval of the recommended policy's, at no more copies; or, where hedging does
    not pay, it lowers p99 by 5 % or more all the same."""
    text: str
    """The same in words."""


@dataclass(frozen=True)
class Samples:
    """What measured service times hold."""

    count: int
    """How many there are."""
    with_hiccup: int
    """Those with a hiccup."""
    probability: float
    """Their share."""
    probability_ci95: tuple[float, float]
    """The 95 % confidence interval of that."""
    duration: float
    """How long a hiccup is; zero where there is none."""
    duration_ci95: tuple[float, float] | None
    """The 95 % confidence interval of that. None where it is not known."""
    assumes: str
    """What the answer takes for granted."""


@dataclass(frozen=True)
class Advice:
    """The answer; the fields are those of ``curtail advise --json``."""

    hedge: bool
    """Does hedging pay here?"""
    policy: str
    """What to run."""
    hedging_policy: str
    """The best policy that hedges, whether it pays or not."""
    gain: Gain
    """What that gains over per-shard queuing."""
    gain_ci95: GainIntervals
    """How sure that is, as far as it depends on chance, in the simulation and in the samples."""
    bound: Gain
    """What no policy can exceed."""
    idealized: Gain
    """What a hedge gains that knows the future."""
    stop_above_utilization: float | None
    """The load from which on hedging is no longer faster; None where it never is."""
    settled: bool
    """False where other samples of the same service might well lead to another answer."""
    confidence: float
    """The probability that the verdict is right, as far as it depends on chance, in the simulation and in
    the samples."""
    because: str
    """Why, in words."""
    rival: Rival
    """The best delayed hedge, and whether it is as good as what is advised."""
    config: str
    """A part of a configuration of ``curtail proxy``."""
    utilization: float
    """The utilization that was asked about."""
    utilization_of: str
    """What utilizations count: ``"mean"``, or ``"total"``: with the jitter, where nearly all is jitter."""
    unit: str
    """What latencies are in: ``"ms"``, or ``"1"`` for the experiment's own unit."""
    hiccups: Hiccups
    """The hiccups in the jitter."""
    latencies: pa.Table
    """What was simulated at this load, a row per policy."""
    curve: pa.Table
    """p99 over the load, of per-shard queuing and of the policy that hedges."""
    rate: float | None = None
    """The requests per second that the utilization comes to, where times have units."""
    samples: Samples | None = None
    """What the samples hold, where some were given."""


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
    """Says whether hedging would help: by how much, with which policy, up to which load.

    It simulates the policies at the load at hand, and the best of them over all loads, in some
    seconds. The answer may be no.

    utilization, utilization_of, shards, replicas, slots, arrivals, seed, threads, progress
        As of :func:`simulate`.
    service_time, jitter
        Distributions of P, a query's own service time, and of J, what each copy adds. ``service`` is
        another name of ``service_time``.
    samples, unit
        In their place service times without queueing, 100 or more, as :func:`fit` takes them. Hiccups
        are found in them where they are well beyond the other samples. Or a folder of
        ``curtail jitter``.
    cancel
        What a replica does with a query that is given up: ``"none"`` (it goes on) or ``"reset"`` (it
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
    with following(progress, "simulating") as told:
        text = _curtail.advise(given, measured, cancel == "reset", threads, told)
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
