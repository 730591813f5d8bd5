"""One experiment has the figures of the command line, on any number of threads."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import curtail

from .conftest import POLICIES, SMALL, Shell, dig, flags


def test_figures_are_those_of_the_command_line(shell: Shell) -> None:
    policies = [*POLICIES, "laedge:cc+pc"]
    printed = shell("sim", *flags(SMALL, policies))
    table = curtail.simulate(policies, **SMALL)
    assert table.num_rows == len(printed) == 3
    compared = 0
    for row, document in zip(table.to_pylist(), printed, strict=True):
        for column, value in row.items():
            if column != "elapsed_s":
                assert value == dig(document, column), column
                compared += value is not None
    assert compared > 60
    assert set(printed[2]) <= {column.split(".")[0] for column in table.column_names}


def test_defaults_are_those_of_the_command_line(curtail_binary: str, shell: Shell) -> None:
    printed = shell("sim", "--requests=100", "--replications=1")
    table = curtail.simulate(requests=100, replications=1)
    assert table["policy"].to_pylist() == [document["policy"] for document in printed]
    assert table["request.mean"].to_pylist() == [document["request"]["mean"] for document in printed]
    version = subprocess.run([curtail_binary, "--version"], capture_output=True, check=True, text=True)
    assert version.stdout.split()[-1] == curtail.__version__


def test_figures_do_not_depend_on_threads() -> None:
    tables = [
        curtail.simulate(POLICIES, **SMALL, threads=threads).drop_columns(["elapsed_s"])
        for threads in (1, 2, 5)
    ]
    assert tables[0].equals(tables[1]) and tables[0].equals(tables[2])


def test_what_is_not_known_is_null() -> None:
    row = curtail.simulate("naive", shards=2, utilization=0.6, requests=20_000).to_pylist()[0]
    assert row["stable"] is False
    assert row["request.p99"] is None and row["requests_failed"] == 0


def test_types_are_the_same_whatever_is_null() -> None:
    table = curtail.simulate("psq", requests=100, replications=1)
    assert table.schema.field("ci95.p99").type == pa.float64()
    assert table.schema.field("trained").type == pa.string()
    assert table.schema.field("queries_simulated").type == pa.int64()


def test_windows_are_a_column_of_json(shell: Shell) -> None:
    asked = {**SMALL, "change": "jitter=none", "change_at": 500, "window": 250}
    printed = shell("sim", *flags(asked, ["psq"]))
    row = curtail.simulate("psq", **asked).to_pylist()[0]
    assert json.loads(row["windows"]) == printed[0]["windows"]
    assert [window["from"] for window in printed[0]["windows"]][:2] == [0, 250]
    assert curtail.simulate("psq", **SMALL)["windows"].to_pylist() == [None]


def test_numbers_of_numpy_and_frames_of_pandas_are_welcome() -> None:
    plain = curtail.simulate("psq", requests=500, speeds=[1, 0.5], utilization=0.25, seed=3)
    other = curtail.simulate(
        "psq",
        requests=np.int64(500),
        speeds=np.array([1.0, 0.5]),
        utilization=np.float64(0.25),
        seed=3,
    )
    frame = plain.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame.drop(columns="elapsed_s").equals(other.to_pandas().drop(columns="elapsed_s"))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"shards": 0}, "shards is 0; use 1 to 100000"),
        ({"shards": -1}, "shards is -1; give it a whole number, such as 50"),
        ({"shards": 2.5}, "shards is 2.5; give it a whole number, such as 50"),
        ({"utilization": "much"}, 'utilization is "much"; give it a number'),
        ({"utilization": float("nan")}, "utilization is nan; give it a finite number"),
        ({"service": "ex:1"}, "service: `ex` is not a distribution; did you mean exp:MEAN?"),
        (
            {"service": "exp:1", "service_time": "exp:1"},
            "service is another name of service_time; drop one",
        ),
        ({"warmup": 2}, "warm-up is 2; use 0 to 0.9"),
        ({"service": 5}, 'service is 5; give it a string, such as "exp:1"'),
        ({"jitter": "exp:1ms"}, "jitter has units and service has none; give a unit to every"),
        ({"speeds": [1]}, "speeds is [1.0]; use one speed for each of the 2 replicas"),
        ({"utilization_of": "x"}, 'utilization-of is "x"; give it "mean" or "total"'),
        ({"hint_error": "x"}, 'hint-error is "x"; give it a number, such as 0.5'),
        ({"window": "x"}, 'window is "x"; give it a whole number, such as 1000'),
        ({"change": "x"}, 'change "x": write KEY=VALUE'),
        ({"change": [1]}, 'change is [1]; give it a list of strings'),
        ({"jitter_of": "x"}, 'jitter-of is "x"; give it "copy" or "query"'),
        ({"policy": "psk"}, 'policy psk: unknown policy "psk"; use one of random'),
        ({"policy": ["psq", "psq"]}, "policy psq is given twice; remove one"),
        ({"policy": []}, "the policy is missing; name one"),
        ({"percentiles": [100]}, "percentiles 100: use numbers above 0 and below 100"),
        ({"threads": 0}, "threads is 0; give it 1 to 1024"),
        ({"threads": -1}, "threads is -1; give it 1 to 1024"),
        ({"arrivals": "trace:/no/such"}, "/no/such"),
    ],
)
def test_bad_input_is_named_with_its_mend(asked: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError) as raised:
        curtail.simulate(**asked)  # type: ignore[arg-type]
    assert words in str(raised.value)
