"""Detection of field types without a schema: decided once by the first records, then stored with the checkpoint."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.cursor_messages import Read
from gauss.contracts.format import Format
from gauss.stream.driver.planning.refs import FieldRef

if TYPE_CHECKING:
    from gauss.stream.driver.queries.compile import Design

SAMPLE_ROWS = 1_000

log = logging.getLogger(__name__)


def load(path: Path) -> dict[str, FieldRef]:
    """The stored types; empty if the file is missing or unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, FieldRef])
    except (OSError, msgspec.DecodeError):
        return {}


def save(path: Path, kinds: dict[str, FieldRef]) -> None:
    """Stores the types, so that a restart decodes records in the same way."""
    temporary = path.with_suffix(".new")
    temporary.write_bytes(msgspec.json.encode(kinds))
    temporary.rename(path)


def sample(client: EngineClient, processor: str, topics: list[str]) -> list[bytes]:
    """The first unread records of a processor's topics, including its retry inlet."""
    records: list[bytes] = []
    for name in topics:
        topic = client.command("topic", {"name": name})
        places = [reader["position"] for reader in topic["readers"] if reader["name"] == processor]
        # Readers by `latest`, and those of partitions, have no position in the topic.
        start = max(places[0] if places else topic["end"] - SAMPLE_ROWS, topic["floor"])
        if start < (stop := min(topic["end"], start + SAMPLE_ROWS)):
            for batch in client.read(Read(name, topic["inc"], start, stop)):
                records.extend(batch.column(2).to_pylist())
    return records


def kinds(
    client: EngineClient, processor: str, topics: list[str], design: Design, path: Path
) -> dict[str, FieldRef] | None:
    """Types of a design's undecided fields; None while there is no record to sample."""
    if not design.undecided:
        return {}
    known = load(path)
    if all(name in known for name in design.undecided):
        return known
    records = sample(client, processor, topics)
    if not records:
        return None
    assert design.input is not None
    found = decide(design.undecided, records, design.input.build())
    path.parent.mkdir(parents=True, exist_ok=True)
    save(path, found)
    log.info("%s: decided %s", processor, {name: ref.type for name, ref in found.items()})
    return found


def decide(names: list[str], records: list[bytes], format_: Format) -> dict[str, FieldRef]:
    """A type for each field: int64 (or uint64 if needed) if all numbers of the sample are integers, else double; a
    field that is missing in all records or has several types is passed as JSON text."""
    rows = []
    for record in records:
        try:
            rows.append(format_.decode(record))
        except ValueError:
            continue  # it will become a dead letter
    return {name: _decide(name, [_find(row, name) for row in rows]) for name in names}


def _find(row: Any, name: str) -> Any:
    for part in name.removeprefix("$.").split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row


def _decide(name: str, values: list[Any]) -> FieldRef:
    kinds = _one_number({_kind(value) for value in values if value is not None})
    if len(kinds) != 1:
        return FieldRef(name, "json")
    kind = kinds.pop()
    if kind != "array":
        return FieldRef(name, kind)
    inner = _one_number({_kind(element) for value in values for element in value or [] if element is not None})
    if len(inner) != 1 or inner <= {"array", "json"}:
        return FieldRef(name, "json")
    return FieldRef(name, "array", {"element": inner.pop()})


_NUMBERS = {"negative", "int64", "uint64", "double"}


def _one_number(kinds: set[str]) -> set[str]:
    """Replaces several kinds of numbers by the one that can hold all of them."""
    if not kinds & _NUMBERS or not kinds <= _NUMBERS:
        return kinds
    if "double" in kinds or {"negative", "uint64"} <= kinds:
        return {"double"}
    return {"uint64"} if "uint64" in kinds else {"int64"}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return "negative" if value < 0 else "int64"
        return "uint64" if 0 <= value < 2**64 else "double"
    return {float: "double", str: "string", list: "array"}.get(type(value), "json")
