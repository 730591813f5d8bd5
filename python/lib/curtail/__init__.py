"""Decide before you deploy: would a second copy of a query help your replicated service?

The package has the simulator, advisor and fits of the command line, with the same names and units:

- :func:`simulate`: runs policies on one experiment and returns a row for each;
- :func:`sweep`: runs a grid of experiments, on this machine or on a Ray cluster;
- :func:`advise`: computes whether hedging helps, by how much, and up to which load;
- :func:`fit`: finds distributions that measured times could come from.

Tables are :class:`pyarrow.Table`; ``.to_pandas()`` converts one to a data frame. The name of a
column is the path of its value in the command line's JSON: ``request.p99``, ``ci95.p99``.

If times have a unit (``"exp:5ms"``), results are in milliseconds. Without units, all times are
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
