"""Records that several chains of a task read, decoded once for all of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.letter import Letter
from gauss.stream.driver.tasks.chain_steps import ChainMember
from gauss.stream.driver.tasks.reading import Range, decode


class SharedRecords:
    """Records that several heads read, decoded once for all of them."""

    def __init__(self, member: ChainMember, union: pa.Schema | None, records: pa.RecordBatch, part: Range) -> None:
        self._records, self._part = records, part
        self._doubts: list[Letter] = []
        self._decoded: list[pa.RecordBatch] | None = None
        if union is not None:
            self._decoded = list(decode(member.step.read, records, union, part, self._doubts, offsets=True))

    def to(self, member: ChainMember, letters: list[Letter]) -> None:
        if self._decoded is None or not self._is_of_all(member, letters):
            member.read(self._records, self._part, letters)
            return
        for decoded in self._decoded:
            member.take(decoded, member.lies(decoded, self._part))

    def _is_of_all(self, member: ChainMember, letters: list[Letter]) -> bool:
        """Whether the records that failed to decode for all heads also fail for this one; they then become its dead
        letters."""
        if not self._doubts:
            return True
        offsets = pa.array(sorted({each.offset for each in self._doubts}), pa.int64())
        doubted = self._records.filter(pc.is_in(self._records.column(0), offsets))
        own: list[Letter] = []
        if sum(len(rows) for rows in decode(member.step.read, doubted, member.fields, self._part, own)):
            return False
        letters += own
        return True


def in_all(parts: dict[str, list[Range]]) -> list[Range]:
    """The ranges that all chains read; empty for a single chain."""
    first, *others = parts.values() if len(parts) > 1 else ([],)
    return [part for part in first if all(part in other for other in others)]


def union_of(heads: list[ChainMember]) -> pa.Schema | None:
    """The fields of all heads; None for a single head, or if the heads decode a field in different ways."""
    found: dict[str, pa.Field] = {}
    for head in heads if len(heads) > 1 else ():
        for field in head.wanted(head.step.read.format):
            if not found.setdefault(field.name, field).equals(field, check_metadata=True):
                return None
    return pa.schema(list(found.values())) if found else None
