"""Columns that files have, but the plan of their stream does not: found while reading, known to the next plan."""

from __future__ import annotations

from typing import NoReturn

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.host import Host, LogLevel
from gauss.contracts.connector.progress import StateScope
from gauss.plugins.connectors.file.io_errors import file_errors
from gauss.plugins.connectors.file.jsonl_reader import unknown_in_jsonl
from gauss.plugins.connectors.file.listing import DataFile, FileStream
from gauss.plugins.connectors.file.reading import ReadOptions, grown, with_new
from gauss.plugins.connectors.file.schemas import first_schema, infer, read_schema

_SHOWN = 10


class NewColumns:
    """Ends the read of a stream at the first column that its plan lacks; the columns of all files to read are stored
    before, so that one new plan has them all."""

    def __init__(
        self, host: Host, stream: FileStream, files: list[DataFile], schema: pa.Schema, options: ReadOptions
    ) -> None:
        """`files`: those of the stream that are to be read, also by other tasks; `schema`: the columns to read."""
        self._host, self._stream, self._files, self._schema, self._options = host, stream, files, schema, options
        self._is_projected = False

    def __call__(self, file: DataFile, place: str, found: pa.Schema) -> None:
        """Raises ConnectorError, unless the host asked for some of the columns only. `found`: new columns, and known
        ones with new fields; `place`: where in the file."""
        if self._is_projected:
            return
        # Every plan has the columns of the first files: a host that names fewer wants no others.
        planned = read_schema(self._stream.schema_file) or first_schema(self._stream, self._options)
        self._is_projected = any(name not in self._schema.names for name in planned.names)
        if not self._is_projected:
            self._fail(file, place, found)

    def _fail(self, file: DataFile, place: str, first: pa.Schema) -> NoReturn:
        whole = with_new(self._schema, first)
        for each in self._files:
            try:
                with file_errors(each.path, "read"):
                    if each.kind.format == "jsonl":
                        whole = unknown_in_jsonl(each, whole, self._options)
                    else:
                        whole = with_new(whole, infer(each, self._options))
            except ConnectorError as error:
                if error.category is not ErrorCategory.DATA:
                    raise
        new = pa.schema([each for each in whole if _is_new(each, self._schema)])
        _store(self._host, self._stream.name, new)
        shown = ", ".join(f"{each.name} ({each.type})" for each in list(new)[:_SHOWN])
        more = f" and {len(new) - _SHOWN} more" if len(new) > _SHOWN else ""
        message = f"{file.path}{place}: columns that the plan of the stream lacks: {shown}{more}"
        self._host.log(LogLevel.WARN, message)
        raise ConnectorError.schema(
            "SCHEMA_CHANGED",
            message,
            hint="start the sync again, which follows schema_evolution in policies",
            details={"replan": True, "file": file.name, "columns": new.names},
        )


def stored_columns(host: Host, stream: str) -> pa.Schema:
    """The columns that earlier runs have found while they read."""
    found = host.state_get(StateScope.CONNECTOR_INSTANCE, _key(stream))
    return pa.schema([]) if found is None else pa.ipc.read_schema(pa.py_buffer(found))


def _store(host: Host, stream: str, new: pa.Schema) -> None:
    while True:  # another task may store its own meanwhile
        before = host.state_get(StateScope.CONNECTOR_INSTANCE, _key(stream))
        known = pa.schema([]) if before is None else pa.ipc.read_schema(pa.py_buffer(before))
        after = with_new(known, new).serialize().to_pybytes()
        if host.state_compare_and_set(StateScope.CONNECTOR_INSTANCE, _key(stream), before, after):
            return


def _is_new(field: pa.Field, known: pa.Schema) -> bool:
    if field.name not in known.names:
        return True
    there = known.field(field.name).type
    return bool(grown(there, field.type) != there)


def _key(stream: str) -> str:
    return f"columns/{stream}"
