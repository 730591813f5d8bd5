"""Converts tables of the compiled part to Arrow."""

from __future__ import annotations

import os
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq

from . import _curtail

_TYPES = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
}


def batch(table: _curtail.Table) -> pa.RecordBatch:
    """Converts some rows."""
    schema, columns = table
    fields = pa.schema([pa.field(name, _TYPES[kind]) for name, kind in schema])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)


def write_parquet(table: pa.Table, path: str) -> None:
    """Writes a table to a file atomically: the file is complete or absent."""
    handle, made = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as file:
            pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        # Temporary files are private to their owner, so set the mode of ordinary files.
        os.chmod(made, 0o644)
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise
