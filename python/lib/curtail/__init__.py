"""Decide before you deploy: would a second copy of a query help your replicated service?

The same simulator, advisor and fits as the command line's, with the same names and units:

- :func:`simulate`: policies on one experiment, a row for each;
- :func:`sweep`: a grid of experiments, on this machine or on a Ray cluster;
- :func:`advise`: whether to hedge, by how much it helps, and up to which load;
- :func:`fit`: which distributions measured times may come from.

Tables are :class:`pyarrow.Table`; ``.to_pandas()`` makes a data frame of one. Columns are named by
where their value is in the command line's JSON: ``request.p99``, ``ci95.p99``.

Times have a unit (``"exp:5ms"``), and results are in milliseconds then; or none, and everything is in
multiples of a unit of your choice.
"""

from ._advise import Advice, Gain, GainIntervals, Hiccups, Rival, Samples, advise
from ._curtail import VERSION as __version__
from ._fit import Fits, fit
from ._simulate import simulate
from ._sweep import sweep

__all__ = [
    "Advice",
    "Fits",
    "Gain",
    "GainIntervals",
    "Hiccups",
    "Rival",
    "Samples",
    "__version__",
    "advise",
    "fit",
    "simulate",
    "sweep",
]
