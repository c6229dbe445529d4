"""write_full × readers against a reference model: topic and model must agree after every step."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.cursor import Last, Mode, Program, ReaderCursor, Seq
from gauss.contracts.storage import Capacity, WriteFull
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.readers import OffsetReader
from helpers.cases import cases
from helpers.logs import drain, lines, open_log


class Model:
    """The rules in their simplest form: a list of (offset, data), one record at a time."""

    def __init__(self, size: int | None, size_bytes: int | None, full: str) -> None:
        self.size, self.size_bytes, self.full = size, size_bytes, full
        self.kept: list[tuple[int, bytes]] = []
        self.end = self.dropped = 0
        self.readers: dict[str, int] = {}

    def over(self, kept: list[tuple[int, bytes]]) -> bool:
        too_many = self.size is not None and len(kept) > self.size
        too_big = self.size_bytes is not None and sum(len(data) + 1 for _, data in kept) > self.size_bytes
        return len(kept) > 1 and (too_many or too_big)

    def append(self, data: bytes) -> bool:
        record = (self.end, data)
        hold = min(self.readers.values(), default=self.end)
        needed = [entry for entry in self.kept if entry[0] >= hold]
        if self.full != "overwrite" and self.readers and self.over([*needed, record]):
            self.dropped += self.full == "drop"
            return False
        self.kept.append(record)
        self.end += 1
        return True

    def settle(self) -> None:
        """Removes records beyond the capacity."""
        hold = self.end if self.full == "overwrite" else min(self.readers.values(), default=self.end)
        while self.over(self.kept) and self.kept[0][0] < hold:
            self.kept.pop(0)


RECORDS = st.lists(st.binary(max_size=6).map(lambda raw: raw.hex().encode()), min_size=1, max_size=8)
STEP = st.one_of(
    st.tuples(st.just("append"), RECORDS),
    st.tuples(st.just("open"), st.sampled_from(["earliest", "end"])),
    st.tuples(st.just("read"), st.integers(0, 2)),
    st.tuples(st.just("close"), st.integers(0, 2)),
)


@settings(max_examples=cases(250), deadline=None)
@given(
    st.one_of(st.none(), st.integers(1, 9)),
    st.one_of(st.none(), st.integers(1, 60)),
    st.sampled_from(["block", "drop", "overwrite"]),
    st.lists(STEP, max_size=40),
)
def test_topic_agrees_with_the_model(
    size: int | None, size_bytes: int | None, full: str, steps: list[tuple[str, object]]
) -> None:
    cancel = threading.Event()
    cancel.set()  # a blocking append gives up: compare what was accepted
    with tempfile.TemporaryDirectory() as folder:
        topic = LogTopic("t", open_log("memory", Path(folder)), Capacity(size, size_bytes, WriteFull(full)))
    model = Model(size, size_bytes, full)
    open_readers: list[tuple[OffsetReader, ReaderCursor]] = []
    for action, value in steps:
        if action == "append":
            assert isinstance(value, list)
            result = topic.append(lines(*value), cancel)
            accepted = 0
            for data in value:
                if not model.append(data):
                    break
                accepted += 1
            if full == "drop":
                model.dropped += max(0, len(value) - accepted - 1)
            model.settle()
            assert result.accepted == accepted
        elif action == "open":
            reader = topic.reader("r", str(value), keep=False)
            cursor = topic.open(Program(Seq(reader.position), Mode.LIVE))
            model.readers[reader.name] = reader.position
            open_readers.append((reader, cursor))
        elif open_readers:
            reader, cursor = open_readers[int(str(value)) % len(open_readers)]
            name = reader.name
            if action == "read":
                at = model.readers[name]
                floor = model.kept[0][0] if model.kept else model.end
                missed = cursor.missed
                found = drain(cursor)
                assert [(record[0], record[2]) for record in found] == [kept for kept in model.kept if kept[0] >= at]
                assert cursor.missed - missed == max(0, min(floor, model.end) - at)
                reader.move(cursor.position)
                model.readers[name] = model.end
            else:
                reader.close()
                del model.readers[name]
                open_readers = [entry for entry in open_readers if entry[0] is not reader]
            model.settle()
        assert topic.version() == model.end
        assert topic.counters.dropped == model.dropped
        if action in ("append", "open"):  # a reader that advances frees nothing until space is needed
            kept = [(record[0], record[2]) for record in drain(topic.open(Program()))]
            assert kept == model.kept
        newest = drain(topic.open(Program(Last())))
        assert [(record[0], record[2]) for record in newest] == model.kept[-1:]
