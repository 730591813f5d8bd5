"""Distributions that samples may have come from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from . import _asked, _curtail

_SCHEMA = pa.schema(
    [
        ("family", pa.string()),
        ("spec", pa.string()),
        ("parameters", pa.map_(pa.string(), pa.float64())),
        ("log_likelihood", pa.float64()),
        ("aic", pa.float64()),
        ("ks", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Fits:
    """How distributions fit; the fields are those of ``curtail model fit --json``."""

    samples: int
    """How many there are."""
    zeros: int
    """How many of them are 0, and are taken for half of the shortest other: one in a hundred may be."""
    unit: str
    """What times are in: ``"ms"``, or ``"1"`` for the samples' own unit."""
    mean: float
    """Of the samples."""
    scv: float
    """Their squared coefficient of variation."""
    by: str
    """What fits are ranked by."""
    best: str | None
    """The best that can be written as a distribution, as ``service`` takes it."""
    fits: pa.Table
    """A row per family that fits, the best first: ``family``, ``spec``, ``parameters``, and how well
    it fits: ``log_likelihood``, ``aic`` and ``ks``."""
    refused: dict[str, str]
    """Families that do not, and why."""

    def to_pandas(self) -> Any:
        """The fits as a data frame."""
        return self.fits.to_pandas()


def fit(samples: Any, *, by: str = "aic", unit: str | None = None) -> Fits:
    """Fits distributions to measured times, and ranks them.

    By AIC every sample's likelihood counts, and parameters cost; by ``"ks"`` the largest distance of
    the distribution functions counts. Neither sees far into the tail: for the tail as it was measured
    use the samples themselves, as ``service="file:PATH"``.

    samples
        Numbers, in a list or an array of numpy, pandas or Arrow; or the path of a file with one time
        per line.
    by
        ``"aic"`` or ``"ks"``.
    unit
        Of the numbers: ``"ms"``, ``"us"`` …; fits have units then. A file has its own.
    """
    told = json.loads(_curtail.fit(_asked.samples(samples, unit), by))
    rows = [dict(row, parameters=list(row["parameters"].items())) for row in told.pop("fits")]
    refused = {row["family"]: row["because"] for row in told.pop("refused")}
    return Fits(fits=pa.Table.from_pylist(rows, schema=_SCHEMA), refused=refused, **told)
