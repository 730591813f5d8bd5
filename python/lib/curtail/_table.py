"""Tables of the compiled part, in Arrow."""

from __future__ import annotations

import pyarrow as pa

from . import _curtail

_TYPES = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
}


def batch(table: _curtail.Table) -> pa.RecordBatch:
    """Some rows."""
    schema, columns = table
    fields = pa.schema([pa.field(name, _TYPES[kind]) for name, kind in schema])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)
