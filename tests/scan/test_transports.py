"""One golden sequence of (code, bytes) per case, the same in process and over Flight, HTTP and WebSocket."""

from __future__ import annotations

import dataclasses
import json
import struct
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from websockets.sync.client import connect as ws_connect

from gauss.api.cursors import take
from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.cursor_messages import Ask
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Output, Program, Step
from gauss.model.batch import binary_array
from gauss.model.errors import GaussError, from_dict
from gauss.scan.codes import code_of
from gauss.scan.program.blob import encode_program, encode_step
from gauss.scan.program.parse import parse_scan
from helpers.logs import NEWLINE, put
from helpers.run import Run
from helpers.scan_items import decode_item
from helpers.scan_worlds import FIELDS, LogWorld, TableWorld, World, doc, json_format

pytestmark = pytest.mark.system

Golden = list[tuple[Code, bytes]]

PIPELINE = f"""
[[formats]]
name = "docs"
plugin = "json"
config = {{ fields = [{", ".join(f'{{ name = "{f["name"]}", type = "{f["type"]}" }}' for f in FIELDS)}] }}

[[topics]]
name = "log"
storage = "memory"

[[topics]]
name = "file"
storage = "file"

[[topics]]
name = "rolled"
storage = "file"
storage_config = {{ file_format = "arrow_ipc_file", roll_rows = 4 }}

[[topics]]
name = "table"
storage = "memory"
storage_config = {{ mode = "table", format = "docs", key_field = "k", delete_when = ".gone == true" }}
"""
TOPICS = ("log", "file", "rolled", "table")
LOGS = {"memory": "", "file": 'storage_config = { framing = "newline" }\n'}
PIPELINE += "".join(
    f'\n[[topics]]\nname = "as-it-lies-{name}"\nstorage = "{name}"\n{more}' for name, more in LOGS.items()
)
DOCS = [*(doc(number) for number in range(60)), doc(60, "k3", gone=True)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    started = Run(tmp_path_factory.mktemp("transports"), PIPELINE).start()
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in DOCS)
    for topic in TOPICS:
        assert started.api(f"/api/topics/{topic}/records", "POST", lines) == {"accepted": len(DOCS)}
    yield started
    started.end()


@pytest.fixture(scope="module")
def worlds(client: EngineClient, tmp_path_factory: pytest.TempPathFactory) -> dict[str, World]:
    """The same records with their arrival times in this process; all logs in memory."""
    folder = tmp_path_factory.mktemp("worlds")
    formats = {"formats": lambda _: json_format()}
    found: dict[str, World] = {}
    for topic in TOPICS:
        found[topic] = world = (
            TableWorld("table", folder, **formats) if topic == "table" else LogWorld("memory", folder, **formats)
        )
        with client.scan_cursor(topic, "seq") as cursor:
            assert cursor.next(Step()) is Code.OK
            batch = cursor.read()[1]
            assert isinstance(batch, pa.RecordBatch)
            (arrival,) = set(batch.column("ts_ms").to_pylist())
        world._append([arrival] * len(DOCS), [msgspec.json.encode(each) for each in DOCS])
        world.wal += [(arrival, each, msgspec.json.encode(each)) for each in DOCS]
    return found


@pytest.fixture(scope="module")
def client(run: Run) -> Iterator[EngineClient]:
    made = EngineClient.from_file(run.data_dir / "run" / "flight.json", wait_s=60)
    yield made
    made.close()


def in_process(world: World, blob: bytes, steps: list[bytes]) -> Golden:
    task = world.task()
    _, slot = task.slot()
    code = task.scan(slot, world.id, blob)
    found = [(code, b"")]
    if code is Code.OK:
        for step in steps:
            code = task.next(slot, step)
            found.append(task.read(slot) if code is Code.OK else (code, b""))
    task.done()
    return found


def by_flight(client: EngineClient, topic: str, program: Program, steps: list[bytes]) -> Golden:
    try:
        cursor = client.scan_cursor(topic, program)
    except GaussError as error:
        return [(code_of(error), b"")]
    found = [(Code.OK, b"")]
    with cursor:
        for step in steps:
            code, _ = cursor.ask(Ask.NEXT, step)
            found.append(cursor.ask(Ask.READ) if code is Code.OK else (code, b""))
    return found


def _address(run: Run) -> tuple[str, str]:
    found: dict[str, Any] = json.loads((run.data_dir / "engine.json").read_text())
    return found["endpoint"], found["token"]


def by_websocket(run: Run, topic: str, blob: bytes, steps: list[bytes]) -> Golden:
    endpoint, token = _address(run)
    with ws_connect(f"{endpoint.replace('http', 'ws')}/api/topics/{topic}/cursor?token={token}") as socket:
        socket.send(blob)
        opened = json.loads(socket.recv(60))
        if "error" in opened:
            return [(code_of(from_dict(opened["error"])), b"")]
        found = [(Code.OK, b"")]
        for step in steps:
            socket.send(step)
            answer = socket.recv(60)
            assert isinstance(answer, bytes)
            found.append((Code(answer[0]), answer[1:]))
        return found


def by_http(run: Run, topic: str, blob: bytes, limit: int, max_bytes: int = Step.max_bytes) -> Golden:
    endpoint, token = _address(run)
    query = f"limit={limit}&max_bytes={max_bytes}"
    request = urllib.request.Request(
        f"{endpoint}/api/topics/{topic}/cursor?{query}", blob, {"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            body: bytes = reply.read()
    except urllib.error.HTTPError as error:
        return [(code_of(from_dict(json.loads(error.read())["error"])), b"")]
    found, at = [(Code.OK, b"")], 0
    while at < len(body):
        code, size = struct.unpack_from("<BI", body, at)
        found.append((Code(code), body[at + 5 : at + 5 + size]))
        at += 5 + size
    return found


def steps_of(*limits: int, max_bytes: int = Step.max_bytes) -> list[bytes]:
    return [encode_step(Step(limit, max_bytes)) for limit in limits]


def asked(topic: str, text: str, **more: Any) -> Program:
    """The program for a topic: a log needs the format in the program, the table has one."""
    return dataclasses.replace(parse_scan(text, **more), format="" if topic == "table" else "docs")


PROGRAMS = {
    "14.1 everything": "seq",
    "5.2.3 a snapshot to its end and beyond": "seq | {n, symbol}",
    "4.4 rows are filtered beside the data": 'select(.symbol == "BTC" and .bid > 20) | {n, twice: .bid * 2}',
    "2.7 null is a row": "select(.n < 50) | {x: .bid / 0}",
    "2.5 an aggregate": "agg(count: count, high: max(.bid), low: min(.n))",
    "profile a: all rows are dropped": "select(.n > 1000) | {n}",
    "7.4 unknown field": "select(.nothing > 1)",
    "7.4 wrong type": 'select(.bid == "x")',
}


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("output", list(Output))
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_golden_sequence_is_the_same_through_every_transport(
    *, run: Run, worlds: dict[str, World], client: EngineClient, topic: str, text: str, output: Output
) -> None:
    program = asked(topic, text, output=output)
    blob = encode_program(program)
    for limit, max_bytes in ((7, Step.max_bytes), (1000, 300)):
        steps = steps_of(*[limit] * 32, max_bytes=max_bytes)
        golden = in_process(worlds[topic], blob, steps)
        assert by_flight(client, topic, program, steps) == golden
        assert by_websocket(run, topic, blob, steps) == golden
        ended = next(at for at, (code, _) in enumerate(golden) if code is not Code.OK)
        assert by_http(run, topic, blob, limit, max_bytes) == golden[: ended + 1]


@pytest.mark.parametrize("storage", LOGS)
def test_chunks_come_as_they_lie_through_every_transport(
    run: Run, client: EngineClient, tmp_path: Path, storage: str
) -> None:
    topic, world = f"as-it-lies-{storage}", LogWorld(storage, tmp_path)
    for first in range(0, 60, 20):
        lines = b"".join(b"record %d\n" % number for number in range(first, first + 20))
        run.api(f"/api/topics/{topic}/records", "POST", lines)
        lying = parse_scan(f"range(offset: {first}, {first + 20})", output=Output.CHUNKS)
        for chunk in rebuilt(by_flight(client, topic, lying, steps_of(20))[1][1]):
            put(world.log, chunk)  # the same chunk in this process, including the arrival time
    for text in ("", "seq(from: 13)", "range(offset: 15, 50)", "point(last)", "range(ts: 0)", "range(offset: 50, 90)"):
        program = parse_scan(text, output=Output.CHUNKS)
        blob = encode_program(program)
        for limit in (7, 25, 1_000):
            steps = steps_of(*[limit] * (60 // limit + 3))
            golden = in_process(world, blob, steps)
            assert by_flight(client, topic, program, steps) == golden, (text, limit)
            assert by_websocket(run, topic, blob, steps) == golden
            ended = next(at for at, (code, _) in enumerate(golden) if code is not Code.OK)
            assert by_http(run, topic, blob, limit) == golden[: ended + 1]
    made = parse_scan('seq(format: "docs") | {n}', output=Output.CHUNKS)
    refused = in_process(world, encode_program(made), [])
    assert refused == by_flight(client, topic, made, []) == [(Code.INVALID, b"")], "chunks can't be looked into"


def rebuilt(blob: bytes) -> Iterator[Chunk]:
    """The chunks of an offset_len blob."""
    for _, count, times, cut, data in decode_item(Output.CHUNKS, blob):
        ts_ms = times if isinstance(times, int) else np.array(times, np.int64)
        if cut and isinstance(cut[0], str):
            yield Chunk(data, count, ts_ms, NEWLINE)
        else:
            yield Chunk(binary_array(data, np.cumsum([0, *cut])), count, ts_ms)


def test_bad_steps_are_answered_alike_and_leave_the_cursor_where_it_stood(
    run: Run, worlds: dict[str, World], client: EngineClient
) -> None:
    program = asked("log", "{n}")
    blob = encode_program(program)
    steps = [
        *steps_of(3, 5),
        blob,  # 5.1.3: a step with a program
        b"",
        b"GSS\x01\x10\x00",  # a step with a view
        b"GSS\x01\x01\x00",  # 7.5: a limit of 0
        encode_step(Step(1 << 40)),  # 8.3: above max_batch_items
        *steps_of(1000, 1, 1),
    ]
    golden = in_process(worlds["log"], blob, steps)
    assert [code for code, _ in golden][1:] == [
        Code.OK, Code.OK, Code.INVALID, Code.INVALID, Code.INVALID, Code.INVALID, Code.REJECTED,
        Code.OK, Code.INVALID, Code.INVALID,
    ]  # fmt: skip
    assert by_flight(client, "log", program, steps) == golden
    assert by_websocket(run, "log", blob, steps) == golden


@pytest.mark.parametrize("blob", [b"", b"GSP", b"GSP\x02", b"GSP\x01" + b"\xff" * 40, b"x" * (300 << 10)])
def test_bytes_that_are_no_program_are_invalid_everywhere(run: Run, worlds: dict[str, World], blob: bytes) -> None:
    golden = in_process(worlds["log"], blob, [])
    assert golden == [(Code.INVALID, b"")]
    assert by_websocket(run, "log", blob, []) == golden
    assert by_http(run, "log", blob, 1) == golden


@pytest.mark.parametrize("topic", ["log", "table"])
def test_6_2_live_gives_the_root_then_the_tail_with_deletes_alike(
    run: Run, worlds: dict[str, World], client: EngineClient, topic: str
) -> None:
    program = asked(topic, "{n, k}" if topic == "log" else "{n, key, deleted}", live=True)
    blob, (step,) = encode_program(program), steps_of(1000)
    world = worlds[topic]
    task = world.task()
    _, slot = task.slot()
    assert task.scan(slot, world.id, blob) is Code.OK
    endpoint, token = _address(run)
    address = f"{endpoint.replace('http', 'ws')}/api/topics/{topic}/cursor?token={token}"
    with client.scan_cursor(topic, program) as cursor, ws_connect(address) as socket:
        socket.send(blob)
        socket.recv(60)

        def all_agree() -> Code:
            code = task.next(slot, step)
            golden = task.read(slot) if code is Code.OK else (code, b"")
            assert take(cursor, step) == golden
            socket.send(step)
            assert socket.recv(60) == bytes([golden[0]]) + golden[1]
            return golden[0]

        assert [all_agree() for _ in range(3)] == [Code.OK, Code.INVALID, Code.INVALID]
        more = [doc(70), doc(71, "k2", gone=True), doc(72)]
        lines = b"".join(msgspec.json.encode(each) + b"\n" for each in more)
        run.api(f"/api/topics/{topic}/records", "POST", lines)
        world.emit(*more)
        assert [all_agree() for _ in range(2)] == [Code.OK, Code.INVALID]
    task.done()


@pytest.mark.parametrize("topic", ["log", "table"])
def test_rows_of_the_text_form_are_the_same_by_http_and_in_process(
    run: Run, worlds: dict[str, World], topic: str
) -> None:
    text = "select(.n > 20) | {n, symbol, bid}"
    endpoint, token = _address(run)
    query = urllib.parse.urlencode({"program": text, "format": "docs"})
    request = urllib.request.Request(
        f"{endpoint}/api/topics/{topic}/scan?{query}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        rows = [json.loads(line) for line in reply]
    assert rows == worlds[topic].rows(asked(topic, text))
