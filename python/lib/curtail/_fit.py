"""Distributions that samples could have come from."""

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
    """Fitted distributions. The fields are those of ``curtail model fit --json``."""

    samples: int
    """The number of samples."""
    zeros: int
    """The number of samples that are 0, at most one in a hundred. Each counts as half of the shortest
    other sample."""
    unit: str
    """The unit of times: ``"ms"``, or ``"1"`` for the samples' own unit."""
    mean: float
    """The mean of the samples."""
    scv: float
    """The squared coefficient of variation of the samples."""
    by: str
    """The criterion by which fits are ranked."""
    best: str | None
    """The best fit that can be written as a distribution, in the form that ``service`` takes."""
    fits: pa.Table
    """A row per family that fits, the best first: ``family``, ``spec``, ``parameters``, and the
    quality of the fit: ``log_likelihood``, ``aic`` and ``ks``."""
    refused: dict[str, str]
    """The families that do not fit, with the reasons."""

    def to_pandas(self) -> Any:
        """Returns the fits as a data frame."""
        return self.fits.to_pandas()


def fit(samples: Any, *, by: str = "aic", unit: str | None = None) -> Fits:
    """Fits distributions to measured times, and ranks them.

    AIC is based on the likelihood of all samples, with a penalty for parameters. ``"ks"`` is the
    largest distance between the distribution functions. Neither is accurate far in the tail. To
    simulate the measured tail, use the samples themselves: ``service="file:PATH"``.

    samples
        Numbers, in a list or an array of numpy, pandas or Arrow; or the path of a file with one
        time per line.
    by
        ``"aic"`` or ``"ks"``.
    unit
        The unit of the numbers: ``"ms"``, ``"us"`` …; fits then have units. A file has its own
        unit.
    """
    document = json.loads(_curtail.fit(_asked.samples(samples, unit), by))
    rows = [dict(row, parameters=list(row["parameters"].items())) for row in document.pop("fits")]
    refused = {row["family"]: row["because"] for row in document.pop("refused")}
    return Fits(fits=pa.Table.from_pylist(rows, schema=_SCHEMA), refused=refused, **document)
