"""Advice and fits equal those of the command line."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import curtail

from .conftest import Shell


@pytest.fixture(scope="module")
def times() -> list[float]:
    """Service times in ms: one in fifty has a hiccup."""
    draw = random.Random(5)
    return [
        round(draw.expovariate(0.2) + 0.001 + (150 if draw.random() < 0.02 else 0), 4)
        for _ in range(4000)
    ]


def as_printed(advice: curtail.Advice) -> dict[str, Any]:
    """Returns advice in the form that the command line prints."""
    document = asdict(advice)
    document["latencies"] = advice.latencies.to_pylist()
    document["curve"] = advice.curve.to_pylist()
    document["gain_ci95"] = {name: of and list(of) for name, of in document["gain_ci95"].items()}
    for name in ("probability_ci95", "duration_ci95"):
        document["samples"][name] = document["samples"][name] and list(document["samples"][name])
    return document


def test_advice_is_that_of_the_command_line(
    shell: Shell, times: list[float], tmp_path: Path
) -> None:
    (tmp_path / "times.txt").write_text("".join(f"{time}ms\n" for time in times))
    asked = ["--shards=5", "--utilization=0.3", "--samples=times.txt", "--cancel=reset"]
    printed = shell("advise", *asked, cwd=tmp_path)
    advice = curtail.advise(
        shards=5, utilization=0.3, samples=np.array(times), unit="ms", cancel="reset"
    )
    # `verdict` repeats `hedge`, `policy` and `because` in one object for scripts.
    assert printed.pop("verdict")["text"]
    assert as_printed(advice) == printed
    assert advice.hedge and advice.policy.startswith("rescue")
    assert advice.samples is not None and advice.samples.with_hiccup > 40


def test_a_folder_of_jitter_is_read_as_the_command_line_reads_it(
    shell: Shell, times: list[float], tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_text("".join(f"{time}ms\n" for time in times[:100]))
    (tmp_path / "j.txt").write_text("".join(f"{time / 100}ms\n" for time in times))
    seen = {"probability": 0.02, "probability_ci95": [0.015, 0.025]}
    seen |= {"duration_ns": 1.5e6, "duration_ci95": [1.4e6, 1.6e6]}
    found = {"queries": 100, "executions": len(times), "seen": seen}
    (tmp_path / "result.json").write_text(json.dumps(found))
    printed = shell("advise", "--utilization=0.3", f"--samples={tmp_path}")
    advice = curtail.advise(utilization=0.3, samples=tmp_path)
    printed.pop("verdict")
    assert as_printed(advice) == printed
    assert advice.samples is not None and advice.samples.duration_ci95 == (1.4, 1.6)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "give either service_time or samples"),
        ({"service": "exp:1", "samples": [1]}, "give either service_time or samples"),
        (
            {"service": "exp:1", "service_time": "exp:1"},
            "service is another name of service_time; drop one",
        ),
        ({"samples": [1], "jitter": "exp:1"}, "jitter is 'exp:1', and samples hold their own"),
        ({"samples": [1.0] * 5}, "samples: 5 samples are too few for rare hiccups; use 100"),
        ({"samples": [0.0] * 500}, "samples: all samples are zero; use service times"),
        ({"samples": "/no/such"}, "/no/such"),
        ({"service": "exp:1", "cancel": "stop"}, "cancel is 'stop'; give it \"none\" or \"reset\""),
        ({"service": "exp:1", "utilization": 1.5}, "utilization is 1.5; use less"),
    ],
)
def test_a_bad_question_is_named(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as raised:
        curtail.advise(**{"utilization": 0.3, **asked})
    assert words in str(raised.value)


@pytest.mark.parametrize("by", ["aic", "ks"])
def test_fits_are_those_of_the_command_line(
    shell: Shell, times: list[float], tmp_path: Path, by: str
) -> None:
    path = tmp_path / "times.txt"
    path.write_text("".join(f"{time}ms\n" for time in times))
    printed = shell("model", "fit", str(path), f"--by={by}")
    fits = curtail.fit(path, by=by)
    rows = fits.fits.to_pylist()
    assert [dict(row, parameters=dict(row["parameters"])) for row in rows] == printed["fits"]
    for field in ("samples", "unit", "mean", "scv", "by", "best"):
        assert getattr(fits, field) == printed[field]
    assert list(fits.refused) == [refused["family"] for refused in printed["refused"]]
    assert fits.to_pandas()["family"][0] == rows[0]["family"]


def test_samples_may_come_in_many_ways(times: list[float]) -> None:
    best = curtail.fit(times).best
    for samples in (tuple(times), np.array(times), pa.array(times), pa.chunked_array([times])):
        assert curtail.fit(samples).best == best
    assert curtail.fit(times, unit="ms").unit == "ms"
    seconds = curtail.fit(np.array(times) / 1000, unit="s")
    assert seconds.mean == pytest.approx(np.mean(times))
    few = curtail.fit([*times, 0.0])
    assert (few.zeros, few.samples) == (1, len(times) + 1)
    # A fit can be simulated.
    curtail.simulate("psq", service=seconds.best, shards=1, requests=100)


@pytest.mark.parametrize(
    ("samples", "more", "words"),
    [
        ([1, 2], {}, "samples: there are 2 samples; at least 10 are needed"),
        ([1.0] * 20 + [-1], {}, "sample 20 is -1; times must be at least 0"),
        ([1.0] * 20 + [float("nan")], {}, "sample 20 is NaN"),
        ([1.0] * 20 + [0], {}, "sample 20 is 0, as is more than one sample in a hundred"),
        ([1.0] * 20 + ["x"], {}, "sample 20 is 'x'; give numbers"),
        ([1.0] * 20 + [None], {}, "sample 20 is None; give numbers"),
        ([1.0] * 20, {"by": "bic"}, 'by is "bic"; give it "aic" or "ks"'),
        ([1.0] * 20, {"unit": "parsec"}, 'unit is "parsec"; give it one of'),
        ("times.txt", {"unit": "ms"}, "unit is 'ms', but a file has its own unit; drop it"),
        ("/no/such", {}, "/no/such"),
    ],
)
def test_bad_samples_are_named(samples: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as raised:
        curtail.fit(samples, **more)
    assert words in str(raised.value)
