"""References to formats, fields, tables and transforms in a plan: plugin and config, built where they are used.

Every process between the driver and a task imports this module: heavy modules (pydantic, the registry) are imported
where they are used.
"""

from __future__ import annotations

import base64
import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from gauss.model.closing import scope

if TYPE_CHECKING:
    from gauss.config.spec import Pipeline, ProcessorDef
    from gauss.contracts.format import SourceSchema
    from gauss.contracts.format_guard import GuardedFormat
    from gauss.contracts.transform import AnyTransform, Traits

MARK = "gauss"
"""Metadata key of a column that holds values of any type as JSON text."""
BESIDE = b"gauss.beside"
"""Metadata key of a field that a record has beside its data."""


class FormatRef(msgspec.Struct, frozen=True):
    """A format by plugin and config; every worker builds its own."""

    plugin: str
    config: dict[str, Any] = {}
    projects: bool = False
    """Whether only the columns of its schema are written, as with a named output format."""

    def build(self) -> GuardedFormat:
        from gauss.config.formats import build_format

        return build_format(self.plugin, self.config)


class OutsideTarget(msgspec.Struct, frozen=True):
    """The fields by which records are written to a topic in an outside system."""

    key: str = ""
    """The field that is the key of a record; empty: none."""
    partition: str = ""
    """The field that is the number of a record's partition; empty: none."""
    format: FormatRef | None = None
    """The format of the topic's records."""


class TableRef(msgspec.Struct, frozen=True):
    """A table in which a transform looks rows up."""

    topic: str
    format: FormatRef
    key: str
    """The key field of its rows."""


class BesideRef(msgspec.Struct, frozen=True):
    """A topic that a transform reads beside its source."""

    topic: str
    format: FormatRef
    meta: list[str] = []
    """As `TransformRef.meta`."""


class TransformRef(msgspec.Struct, frozen=True):
    """A processor's transform by plugin and config, with the formats that its config names."""

    plugin: str
    config: dict[str, Any] = {}
    input: FormatRef | None = None
    output: FormatRef | None = None
    table: TableRef | None = None
    beside: BesideRef | None = None
    meta: list[str] = []
    """Fields beside the data that it reads, as `meta_fields.META` names them."""

    def build(self) -> tuple[AnyTransform, Traits]:
        """The transform, bound to its formats, and its traits; raises ConfigError."""
        from gauss.contracts.meta_fields import marked, with_meta
        from gauss.contracts.processor import ProcessorSpec
        from gauss.contracts.transform import Schemas
        from gauss.registry import build, spec

        found = spec(ProcessorSpec, self.plugin)
        made: AnyTransform = build(found, found.validate(self.config))
        table = self.table.format if self.table is not None else None
        beside = self.beside.format if self.beside is not None else None
        with scope():  # only the schemas of the formats are needed here
            schemas = Schemas(
                input=with_meta(_schema_of(self.input), self.meta),
                output=_schema_of(self.output),
                table=_schema_of(table),
                table_key=self.table.key if self.table is not None else "",
                beside=with_meta(_schema_of(beside), self.beside.meta) if self.beside is not None else None,
            )
        traits = made.bind(schemas)
        traits = dataclasses.replace(traits, fields=marked(traits.fields, self.meta, schemas.input))
        if traits.beside is not None and self.beside is not None:
            fields = marked(traits.beside.fields, self.beside.meta, schemas.beside)
            traits = dataclasses.replace(traits, beside=dataclasses.replace(traits.beside, fields=fields))
        if traits.time is not None and traits.time.field:
            from gauss.contracts.time_field import with_event_time

            fields = with_event_time(traits.fields, traits.time.field, schemas.input)
            traits = dataclasses.replace(traits, fields=fields)
        return made, traits


def _schema_of(ref: FormatRef | None) -> SourceSchema | None:
    return ref.build().schema() if ref is not None else None


class FieldRef(msgspec.Struct, frozen=True):
    """A decoded field and its type."""

    name: str
    type: str
    attrs: dict[str, Any] = {}
    beside: bool = False
    """As `SourceField.beside`."""

    def arrow(self) -> pa.Field:
        from gauss.contracts.field_types import arrow_type
        from gauss.contracts.format import FieldType

        # Values of any type travel as JSON text, which the mark tells the codec.
        any_kind = "json" in (self.type, self.attrs.get("element"))
        marks = {MARK.encode(): b"json" if self.type == "json" else b"json array"} if any_kind else {}
        marks |= {BESIDE: b""} if self.beside else {}
        return pa.field(self.name, arrow_type(FieldType(self.type, self.attrs)), metadata=marks or None)


class StateRef(msgspec.Struct, frozen=True):
    """The topic to which a query also writes its state."""

    topic: str
    format: FormatRef


def encode_fields(fields: list[FieldRef]) -> str:
    """Fields as the text of an Arrow schema."""
    return encode_schema(pa.schema([field.arrow() for field in fields]))


def encode_schema(schema: pa.Schema) -> str:
    """An Arrow schema as text."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def decode_schema(text: str) -> pa.Schema:
    """An Arrow schema from its text; an empty one has no columns."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) if text else pa.schema([])


def format_ref(pipeline: Pipeline, name: str | None) -> FormatRef | None:
    """The format that a pipeline calls by this name."""
    definition = pipeline.format(name) if name is not None else None
    return FormatRef(definition.plugin, definition.config) if definition is not None else None


def table_ref(pipeline: Pipeline, processor: ProcessorDef) -> TableRef | None:
    """The table in which a processor looks rows up, if it does."""
    from gauss.config.topics import tables_of
    from gauss.contracts.processor import ProcessorSpec
    from gauss.registry import spec

    found = spec(ProcessorSpec, processor.plugin)
    for _, name in tables_of(found, found.validate(processor.config)):
        config = pipeline.topic(name).storage_config
        format_ = format_ref(pipeline, config["format"])
        assert format_ is not None
        return TableRef(name, format_, config["key_field"])
    return None


def beside_ref(pipeline: Pipeline, processor: ProcessorDef) -> BesideRef | None:
    """The topic that a processor reads beside its source, if it does."""
    from gauss.contracts.meta_fields import named_in
    from gauss.contracts.processor import ProcessorSpec
    from gauss.registry import spec
    from gauss.stream.driver.planning.outside import outside

    found = spec(ProcessorSpec, processor.plugin)
    for _, topic in found.beside(found.validate(processor.config)) if found.beside is not None else ():
        given = processor.config.get("join_input") or processor.config.get("input") or {}
        format_ = format_ref(pipeline, given.get("format"))
        assert format_ is not None
        return BesideRef(topic, format_, named_in(processor.config) if outside(pipeline, [topic]) else [])
    return None


def transform_ref(pipeline: Pipeline, processor: ProcessorDef) -> TransformRef:
    """A processor's transform with its formats: those that its config names, or its own."""
    from gauss.contracts.meta_fields import named_in
    from gauss.contracts.processor import ProcessorSpec
    from gauss.registry import spec
    from gauss.stream.driver.planning.outside import outside_sources

    found = spec(ProcessorSpec, processor.plugin)
    own = found.codecs(found.validate(processor.config)) if found.codecs else {}
    read, written = (
        FormatRef(*own[side]) if side in own else format_ref(pipeline, (processor.config.get(side) or {}).get("format"))
        for side in ("input", "output")
    )
    others = table_ref(pipeline, processor), beside_ref(pipeline, processor)
    sources = [processor.source] if processor.source is not None else []
    meta = named_in(processor.config) if outside_sources(pipeline, sources) else []
    return TransformRef(processor.plugin, processor.config, read, written, *others, meta)
