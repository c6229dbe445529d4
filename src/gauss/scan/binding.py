"""Binds a program to a provider: resolves fields to columns of the candidates or to fields decoded from `data`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss import registry
from gauss.config.formats import build_format
from gauss.contracts.cursor import Agg, Program, Provider
from gauss.contracts.expression import Kind
from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType, Format, FormatSpec, SourceField
from gauss.model.errors import ConfigError, PluginError
from gauss.scan.outputs import JSON_TEXT, lengths
from gauss.scan.program.bound import Bound, bind
from gauss.scan.program.fuel import FuelCost
from gauss.scan.program.kinds import DECODED, arrow_kinds, schema_kinds

Formats = Callable[[str], Format]


def plugin_format(name: str) -> Format:
    """A format without settings, by plugin name."""
    try:
        registry.installed(FormatSpec, name)
        return build_format(name, {})
    except PluginError as error:
        raise ConfigError(error.message, hint=error.hint) from None


class Prepared(NamedTuple):
    """Candidates with the fields that the program reads."""

    candidates: pa.RecordBatch
    fields: pa.RecordBatch
    toll: FuelCost
    """Fuel of the rows of `fields`."""
    record: np.ndarray | None
    """Index of the candidate of each row. `None`: one row per candidate."""


class Binding:
    """A checked program over the candidates of one provider."""

    def __init__(self, program: Program, provider: Provider, formats: Formats, default: str = "") -> None:
        """Raises ConfigError with the position of the fault, Rejected if any row would exceed the fuel limits."""
        self._format = formats(program.format) if program.format else provider.format()
        if self._format is None and default:
            self._format = formats(default)
        self.candidates = provider.candidates()
        schema = None if self._format is None else self._format.schema()
        declared = {} if schema is None else {entry.name.removeprefix("$."): entry for entry in schema.fields}
        own_kinds, kinds = arrow_kinds(self.candidates), None
        if schema is not None or self._format is None:
            # Fields of the format take precedence over columns of the candidate.
            kinds = own_kinds | ({} if schema is None else schema_kinds(schema))
        try:
            self.bound: Bound = bind(program, kinds, provider.capabilities, own_kinds)
        except ConfigError as fault:
            if self._format is None and fault.hint.startswith("it has:"):
                # agg has no format argument.
                how = (
                    "by --format, or format= over HTTP"
                    if isinstance(program.view, Agg)
                    else 'as in seq(format: "json")'
                )
                fault.hint += f"; to read into the records name their format, {how}"
            raise
        self.is_agg = isinstance(program.view, Agg)
        own = set(self.candidates.names) - declared.keys()
        self.own = [name for name in self.bound.fields if name in own]
        """Columns of the candidates that the program reads."""
        self.decoded = [name for name in self.bound.fields if name not in own]
        """Fields that are decoded from each record."""
        self._wanted = pa.schema([_asked(name, declared.get(name), self.bound.fields[name]) for name in self.decoded])
        if self.decoded:
            self._check_decodable()

    def _check_decodable(self) -> None:
        """Decodes an empty batch, so that fields the format cannot read are reported when the scan is opened."""
        nothing = pa.array([], pa.binary())
        try:
            self._decode(nothing)
        except Exception as error:
            named = ", ".join(repr(name) for name in self.decoded)
            raise ConfigError(
                f"the format can't read the fields {named}: {error!r}",
                hint="name fields as the records have them",
            ) from error

    def prepare(self, candidates: pa.RecordBatch) -> Prepared:
        """Decodes the fields that the program reads and computes their fuel."""
        if self.is_agg:  # the candidate already consists of decoded fields
            return Prepared(candidates, candidates, self.bound.toll(candidates), None)
        fields, record, sizes = self.decode(candidates)
        return Prepared(candidates, fields, self.bound.toll(fields, sizes), record)

    def decode(self, candidates: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray | None, np.ndarray | None]:
        """Returns the fields that the program reads, the candidate index of each row (`None`: one row per candidate),
        and the size of the record decoded for each row (`None`: nothing was decoded)."""
        columns = {name: candidates.column(name) for name in self.own}
        record, sizes = None, None
        if self.decoded:
            data = candidates.column("data")
            sizes = lengths(data)
            decoded, record = self._decode(data)
            if record is not None:
                columns = {name: column.take(pa.array(record)) for name, column in columns.items()}
                sizes = sizes[record].astype(np.int64)
            columns |= zip(self.decoded, decoded, strict=True)
        return _batch(columns, candidates.num_rows if record is None else len(record)), record, sizes

    def _decode(self, data: pa.BinaryArray) -> tuple[list[pa.Array], np.ndarray | None]:
        """The fields of every record (nulls if it cannot be decoded), and the record index of each row unless 1:1."""
        assert self._format is not None
        rows, good, bad, spread = self._format.decode_batch(data, self._wanted)
        if not bad and not spread:
            return rows.columns, None
        record = np.concatenate([good, np.array([index for index, _, _ in bad], np.int64)])
        order = np.argsort(record, kind="stable")
        taken = pa.array(order, mask=order >= len(good))  # `take` of a null index returns null
        columns = [column.take(taken) for column in rows.columns]
        return columns, record[order] if spread else None

    def run(self, prepared: Prepared, stop: int) -> tuple[pa.RecordBatch, np.ndarray | None]:
        """Runs the first `stop` rows. Returns the results and their row indexes (`None`: all rows)."""
        fields = prepared.fields if stop == prepared.fields.num_rows else prepared.fields.slice(0, stop)
        results, kept = self.bound.run(fields)
        if self.bound.columns is not None:
            return self._marked(results), kept
        # No stage makes rows: they are the candidates themselves.
        if kept is None and prepared.record is None:
            return prepared.candidates.slice(0, stop), kept
        chosen = np.arange(stop) if kept is None else kept
        chosen = chosen if prepared.record is None else prepared.record[chosen]
        return prepared.candidates.take(pa.array(chosen)), kept

    def _marked(self, results: pa.RecordBatch) -> pa.RecordBatch:
        """The same batch; columns of JSON text say that they are."""
        kinds = self.bound.columns or {}
        if Kind.ANY not in kinds.values():
            return results
        schema = pa.schema(
            [
                field.with_metadata(JSON_TEXT) if kind is Kind.ANY and pa.types.is_string(field.type) else field
                for field, kind in zip(results.schema, kinds.values(), strict=True)
            ]
        )
        return pa.RecordBatch.from_arrays(results.columns, schema=schema)


def _asked(name: str, declared: SourceField | None, kind: Kind) -> pa.Field:
    """A field as decoders are asked for it."""
    if declared is not None:
        return pa.field(declared.name, arrow_type(declared.field_type))
    path = f"$.{name}" if "." in name else name
    if kind not in DECODED:
        raise ConfigError(f'the type of the field "{name}" is unknown', hint="give the format `fields`")
    type_ = arrow_type(FieldType(DECODED[kind]))
    return pa.field(path, type_, metadata=JSON_TEXT if kind is Kind.ANY else None)


def _batch(columns: dict[str, pa.Array], rows: int) -> pa.RecordBatch:
    if not columns:  # a batch without columns has no length of its own
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
