"""All providers behind one interface, each with a model of its expected contents, for the conformance tests of
scans."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa

from gauss import registry
from gauss.contracts.cursor import Code, Program, Provider, Step
from gauss.contracts.format import Format, FormatSpec
from gauss.contracts.storage import StorageContext, StorageSpec, Table
from gauss.scan.engine import ScanEngine
from gauss.scan.log_cursor import LogProvider
from gauss.scan.program.parse import parse_scan
from gauss.scan.sources import SourceTask
from gauss.scan.table_provider import TableProvider
from gauss.scan.tasks import ReaderTask
from helpers.logs import framing, lines, put
from helpers.reference_provider import ReferenceProvider

PROVIDERS = ("reference", "memory", "file", "rolled", "table")
FIELDS = [
    {"name": "k", "type": "string"},
    {"name": "symbol", "type": "string"},
    {"name": "bid", "type": "double"},
    {"name": "n", "type": "int64"},
    {"name": "gone", "type": "bool"},
]
Row = dict[str, Any]


def json_format(*, fields: bool = True) -> Format:
    spec = registry.spec(FormatSpec, "json")
    return cast(Format, registry.build(spec, spec.validate({"fields": FIELDS} if fields else {})))


def doc(number: int, key: str | None = None, *, gone: bool = False) -> Row:
    """The record of a number. Keys repeat, so that a table has updates too."""
    return {
        "k": f"k{number % 7}" if key is None else key,
        "symbol": ("BTC", "ETH", "SOL")[number % 3],
        "bid": number * 1.5,
        "n": number,
        "gone": gone,
    }


class World:
    """A source of one kind, and the list of events that were emitted into it."""

    is_table = False

    def __init__(self, name: str, provider: Provider, **options: Any) -> None:
        self.name = name
        self.provider = provider
        self.wal: list[tuple[int, Row, bytes]] = []
        self.engine = ScanEngine()
        self.source = SourceTask("t", provider, **options)
        self.id = self.engine.register(self.source)

    def emit(self, *docs: Row) -> None:
        """Emits events, which become visible at once."""
        times = [100 + 10 * (len(self.wal) + index) for index in range(len(docs))]
        data = [msgspec.json.encode(each) for each in docs]
        self._append(times, data)
        self.wal += zip(times, docs, data, strict=True)

    def emit_numbers(self, first: int, count: int) -> None:
        self.emit(*(doc(number) for number in range(first, first + count)))

    def _append(self, times: list[int], data: list[bytes]) -> None:
        raise NotImplementedError

    def fail_to_emit(self) -> None:
        """Stages events and rolls them back."""

    def fold(self, version: int | None = None) -> list[Row]:
        """The expected candidates of Root(version)."""
        return [
            {"offset": offset, "ts_ms": ts_ms, "data": data}
            for offset, (ts_ms, _, data) in enumerate(self.wal[:version])
        ]

    def tail(self, version: int) -> list[Row]:
        """The expected candidates after Root(version)."""
        return self.fold()[version:]

    def compact(self) -> None:
        """Runs the background work of the storage."""

    def task(self, **options: Any) -> ReaderTask:
        return self.engine.reader(**options)[1]

    def read(self, program: Program | bytes | None = None, **options: Any) -> Slot:
        """Opens a scan, which must succeed, in the only slot of a new task."""
        slot = Slot(self, self.task(**options))
        code = slot.scan(Program() if program is None else program)
        assert code is Code.OK, slot.task.fault
        return slot

    def refusal(self, program: Program | bytes) -> Code:
        """The code with which a scan is rejected."""
        return Slot(self, self.task()).scan(program)

    def rows(self, program: Program | None = None) -> list[Row]:
        """All rows of a snapshot."""
        slot = self.read(program)
        found = slot.drain()
        slot.task.done()
        return found


class Slot:
    """One slot of one reader task."""

    def __init__(self, world: World, task: ReaderTask) -> None:
        self.world, self.task = world, task
        code, self.number = task.slot()
        assert code is Code.OK

    def scan(self, program: Program | bytes) -> Code:
        return self.task.scan(self.number, self.world.id, program)

    def next(self, limit: int = 1000, **more: Any) -> Code:
        return self.task.next(self.number, Step(limit, **more))

    def blob(self) -> tuple[Code, bytes]:
        return self.task.read(self.number)

    def batch(self) -> list[Row]:
        """The rows of the prepared batch."""
        code, item = self.task.take(self.number)
        assert code is Code.OK, code
        if isinstance(item, list):
            parts = [entry.chunk.batch(entry.offset) for entry in item]
            return [row for part in parts for row in part.to_pylist()]
        if isinstance(item, bytes):
            return cast("list[Row]", pa.ipc.open_stream(item).read_all().to_pylist())
        assert item is not None
        return cast("list[Row]", item.to_pylist())

    def drain(self, limit: int = 1000, **more: Any) -> list[Row]:
        """All rows until the cursor has none."""
        found: list[Row] = []
        while (code := self.next(limit, **more)) is Code.OK:
            found += self.batch()
        assert code is Code.INVALID, code
        return found

    def golden(self, *limits: int) -> list[tuple[Code, Code, bytes]]:
        """(code of `next`, code of `read`, bytes) for each step, and once more after the end."""
        found = []
        for limit in limits:
            code = self.next(limit)
            found.append((code, *self.blob()))
        return found


class LogWorld(World):
    def __init__(self, name: str, folder: Path, **options: Any) -> None:
        self.folder = folder
        storage, config = _LOGS[name]
        self.log = _store(storage, folder, config)
        super().__init__(name, JsonLog(self.log), **options)

    def _append(self, times: list[int], data: list[bytes]) -> None:
        put(self.log, lines(*data, ts_ms=times))

    def fail_to_emit(self) -> None:
        self.log.append(lines(msgspec.json.encode(doc(99))))
        self.log.rollback()

    def reopened(self) -> LogWorld:
        """The same topic after a restart."""
        self.log.close()
        again = type(self)(self.name, self.folder)
        again.wal = self.wal
        return again


class RolledWorld(LogWorld):
    """A log whose older records are in Arrow files and whose newest are in the log; none are cached in memory."""

    def _append(self, times: list[int], data: list[bytes]) -> None:
        super()._append(times, data)
        for _ in range(3):
            self.log.maintain(0)
        self.log._tail.trim(self.log.end)


class JsonLog(LogProvider):
    """A log of JSON records, as of a topic with a format."""

    def format(self) -> Format:
        return json_format()


class ReferenceWorld(World):
    def __init__(self, name: str, _folder: Path, **options: Any) -> None:
        self.list = ReferenceProvider(json_format())
        super().__init__(name, self.list, **options)

    def _append(self, times: list[int], data: list[bytes]) -> None:
        self.list.append(*zip(times, data, strict=True))


class TableWorld(World):
    is_table = True

    def __init__(self, name: str, folder: Path, **options: Any) -> None:
        config = {"mode": "table", "format": "json", "key_field": "k", "delete_when": ".gone == true"}
        self.table: Table = _store("memory", folder, config)
        super().__init__(name, TableProvider(self.table), **options)

    def _append(self, times: list[int], data: list[bytes]) -> None:
        kept, dead = self.table.fit(lines(*data, ts_ms=times))
        assert kept is not None and not dead
        self.table.append(kept)
        self.table.reveal()

    def fail_to_emit(self) -> None:
        kept, _ = self.table.fit(lines(msgspec.json.encode(doc(99))))
        assert kept is not None
        self.table.append(kept)
        self.table.rollback()

    def fold(self, version: int | None = None) -> list[Row]:
        rows: dict[str, Row] = {}
        for row in self._events()[:version]:
            rows.pop(row["key"], None)
            if not row["deleted"]:
                rows[row["key"]] = row
        return [rows[key] for key in sorted(rows, key=str.encode)]

    def tail(self, version: int) -> list[Row]:
        return self._events()[version:]

    def _events(self) -> list[Row]:
        return [
            {
                "key": event["k"],
                "version": number,
                "ts_ms": ts_ms,
                "deleted": event["gone"],
                "data": data,
            }
            for number, (ts_ms, event, data) in enumerate(self.wal, start=1)
        ]

    def compact(self) -> None:
        for _ in range(3):
            self.table.maintain()


def _store(storage: str, folder: Path, config: dict[str, Any]) -> Any:
    spec = registry.spec(StorageSpec, storage)
    context = StorageContext(
        "t",
        folder / "topic",
        folder,
        incarnation=lambda stored: stored or 7,
        committed=lambda _: True,
        framing=framing,
        format=lambda _: json_format(),
    )
    return registry.build(spec, spec.validate(config), context)


_LOGS: dict[str, tuple[str, dict[str, Any]]] = {
    "memory": ("memory", {}),
    "file": ("file", {"segment_bytes": 4096, "framing": "newline"}),
    "rolled": ("file", {"file_format": "arrow_ipc_file", "roll_rows": 4, "framing": "newline"}),
}
_WORLDS: dict[str, type[LogWorld] | type[ReferenceWorld] | type[TableWorld]] = {
    "reference": ReferenceWorld,
    "memory": LogWorld,
    "file": LogWorld,
    "rolled": RolledWorld,
    "table": TableWorld,
}


def make_world(name: str, folder: Path, **options: Any) -> World:
    """A new world; `options` go to its source task."""
    return _WORLDS[name](name, folder, **options)


GOLDEN = ("seq", 'seq | select(.symbol == "BTC") | {k, mid: .bid / 2}', "seq | .n", "agg(n: count, s: sum(.bid))")
LIMITS = (1, 2, 3, 500, 1)


def golden(world: World) -> str:
    """One hash of the codes and bytes of some programs over the same records."""
    for number in range(0, 90, 3):
        world.emit_numbers(number, 3)
    seen = [world.read(parse_scan(text)).golden(*LIMITS) for text in GOLDEN]
    return hashlib.sha256(repr(seen).encode()).hexdigest()


def run_child(code: str, *arguments: object, seed: int = 0) -> str:
    """The output of a new Python process with its own hash seed."""
    tests, src = Path(__file__).parents[1], Path(__file__).parents[2] / "src"
    environment = {"PYTHONHASHSEED": str(seed), "PYTHONPATH": f"{src}:{tests}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout
