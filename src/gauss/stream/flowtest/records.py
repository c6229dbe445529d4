"""Conversion between the records of test files and bytes, by the pipeline's formats and framings."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.config.files import with_absolute_files
from gauss.config.formats import named_format
from gauss.config.spec import Pipeline
from gauss.contracts.chunk import Chunk
from gauss.contracts.format import Format
from gauss.contracts.framing import Framing, FramingSpec, cut
from gauss.contracts.io import StreamIO
from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import ConfigError, FrameError
from gauss.stream.flowtest.cases import CaseStep, Expect
from gauss.stream.formats import topic_format

NULL = {"null": True}
"""Stands for null, which TOML lacks."""
MAX_RECORD_BYTES = 64 << 20

Row = dict[str, Any]
Found = Row | bytes
"""A record to compare: decoded, or as bytes."""


class Codec:
    """Encodes and decodes the records of a pipeline's tests."""

    def __init__(self, pipeline: Pipeline, base_dir: Path) -> None:
        self._pipeline = with_absolute_files(pipeline, base_dir)
        self._base_dir = base_dir
        self._formats: dict[str, Format] = {}

    def encoded(self, step: CaseStep, topic: str) -> list[bytes]:
        """The records of a `send`."""
        if step.base64 is not None:
            return [base64.b64decode(text) for text in step.base64]
        if step.file is not None:
            return self._from_file(self._base_dir / step.file, step.send or "")
        return [
            record.encode() if isinstance(record, str) else self._encode(record, topic, step.format)
            for record in step.records or []
        ]

    def _encode(self, record: Row, topic: str, named: str | None) -> bytes:
        try:
            return self._format(topic, named).encode(with_nulls(record))
        except ValueError as error:
            raise ConfigError(f"send to {topic}: {record} can't be encoded: {error}") from error

    def decoded(self, expect: Expect, data: list[bytes]) -> list[Found]:
        """The records of a topic in the form that the expectation compares: rows if it has tables, else bytes."""
        if not any(isinstance(record, dict) for record in expect.records or []):
            return list(data)
        format_ = self._format(expect.topic, expect.format)
        several = getattr(format_, "decode_rows", None)
        found: list[Found] = []
        for record in data:
            try:
                found += [format_.decode(record)] if several is None else several(record)
            except ValueError:
                found.append(record)  # it matches no table and is shown unchanged
        return found

    def _format(self, topic: str, named: str | None) -> Format:
        known = topic_format(self._pipeline, topic)
        name = named or (known.name if known is not None else "")
        if name not in self._formats:
            self._formats[name] = named_format(self._pipeline, name)
        return self._formats[name]

    def _from_file(self, file: Path, send: str) -> list[bytes]:
        framing = self._framing(send)
        splitter = framing.splitter(MAX_RECORD_BYTES)
        data = file.read_bytes()
        if framing.key[0] == "newline" and not data.endswith(b"\n"):
            data += b"\n"  # a last line without its newline is a record too
        try:
            kept = framing if framing.raw else None
            found = [Chunk(frames.payload, frames.count, 0, kept).data() for frames in cut(splitter, data)]
            splitter.finish()
        except FrameError as error:
            raise ConfigError(f"{file} can't be split by the framing of {send}: {error.message}") from error
        return [record for records in found for record in records.to_pylist()]

    def _framing(self, send: str) -> Framing:
        """The framing of the source that `send` names; newlines if it names a topic."""
        entry = next((each for each in self._pipeline.processors if each.name == send), None)
        name, parameters = "newline", {"delimiter": "\n"}
        if entry is not None:
            stream = getattr(registry.spec(ProcessorSpec, entry.plugin).validate(entry.config), "input", None)
            if isinstance(stream, StreamIO):
                name, parameters = stream.framing, stream.parameters()
        spec = registry.spec(FramingSpec, name)
        framing: Framing = registry.build(spec, spec.validate(parameters))
        return framing


def with_nulls(value: Any) -> Any:
    """A value with NULL replaced by None."""
    if value == NULL and isinstance(value, dict) and value["null"] is True:
        return None
    if isinstance(value, dict):
        return {key: with_nulls(item) for key, item in value.items()}
    return [with_nulls(item) for item in value] if isinstance(value, list) else value


def wanted(expect: Expect) -> list[Found]:
    """The expected records, with nulls as None."""
    if expect.base64 is not None:
        return [base64.b64decode(text) for text in expect.base64]
    return [record.encode() if isinstance(record, str) else with_nulls(record) for record in expect.records or []]
