"""Remote cursors over Flight: one exchange is one reader task with one slot."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.cursor_messages import Ask, Open, Read
from gauss.contracts.cursor import Code, Mode, Output, Program, Seq, Step
from gauss.contracts.expression import Path, Value
from gauss.model.errors import ConfigError, GaussError, NotFound, Rejected
from gauss.scan.program.blob import encode_program, encode_step
from gauss.scan.program.parse import parse_scan
from gauss.stream.engine.runtime import Engine
from helpers.engine_process import engine_here
from helpers.scan_items import decode_item
from helpers.waiting import wait_until

CONFIG = {
    "formats": [{"name": "quotes", "plugin": "json", "config": {"fields": [{"name": "bid", "type": "int64"}]}}],
    "topics": [
        {"name": "plain", "storage": "memory"},
        {"name": "quotes", "storage": "memory"},
        {
            "name": "prices",
            "storage": "memory",
            "storage_config": {"mode": "table", "format": "json", "key_field": "symbol"},
        },
    ],
    "processors": [
        {
            "name": "feed",
            "plugin": "filter",
            "source": {"topic": "quotes", "read": "offset"},
            "target": {"topic": "plain"},
            "config": {"input": {"format": "quotes"}, "where": ".bid > 1"},
        }
    ],
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engine_here(tmp_path_factory.mktemp("exchange"), CONFIG) as made:
        yield made


@pytest.fixture
def client(engine: Engine) -> Iterator[EngineClient]:
    made = EngineClient.from_file(engine.paths.flight_json, wait_s=60)
    yield made
    made.close()


def put(client: EngineClient, topic: str, *records: bytes) -> None:
    client.append(topic, [pa.record_batch({"data": pa.array(records, pa.binary())})])


def drained(client: EngineClient, topic: str, program: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    with client.scan_cursor(topic, program) as cursor:
        while (code := cursor.next(Step(7))) is Code.OK:
            batch = cursor.read()[1]
            assert isinstance(batch, pa.RecordBatch)
            found += batch.to_pylist()
        assert code is Code.INVALID and cursor.read() == (Code.INVALID, None)
    return found


def test_snapshot_gives_what_was_there_when_it_was_opened(engine: Engine, client: EngineClient) -> None:
    put(client, "plain", *(b"%d" % n for n in range(20)))
    with client.scan_cursor("plain") as cursor:
        put(client, "plain", b"later")
        assert cursor.pinned_version == cursor.opened.pinned_version == engine.topic("plain").version() - 1
        seen = []
        while cursor.next(Step(7)) is Code.OK:
            batch = cursor.read()[1]
            assert isinstance(batch, pa.RecordBatch) and batch.num_rows <= 7
            seen += batch.column("data").to_pylist()
            assert cursor.position == batch.column("offset")[-1].as_py() + 1
        assert seen[-20:] == [b"%d" % n for n in range(20)] and b"later" not in seen


def test_expressions_run_in_the_engine_with_a_format_by_name(client: EngineClient) -> None:
    put(client, "plain", b'{"bid": 5}', b"no json", b'{"bid": 700}')
    assert drained(client, "plain", 'seq(format: "json") | select(.bid > 100) | {bid}')[-1] == {"bid": 700.0}


def test_topic_is_decoded_as_its_processors_have_it(client: EngineClient) -> None:
    put(client, "quotes", b'{"bid": 5, "ask": 6}', b'{"bid": 7}')
    assert drained(client, "quotes", "{bid, twice: .bid * 2}")[-1] == {"bid": 7, "twice": 14.0}
    with pytest.raises(ConfigError, match=r'no field "ask"(.|\n)*\^'):
        client.scan_cursor("quotes", "{ask}")


def test_table_is_decoded_by_its_own_format_and_read_in_key_order(client: EngineClient) -> None:
    put(client, "prices", b'{"symbol": "B", "bid": 1}', b'{"symbol": "A", "bid": 2}', b'{"symbol": "B", "bid": 3}')
    found = drained(client, "prices", "select(.bid > 0) | {key, bid}")
    assert found == [{"key": "A", "bid": 2.0}, {"key": "B", "bid": 3.0}]


def test_live_cursor_is_idle_without_blocking_and_goes_on_after_a_wait(client: EngineClient) -> None:
    with client.scan_cursor("plain", Program(mode=Mode.LIVE)) as cursor:
        while cursor.next(Step()) is Code.OK:
            pass
        began = time.monotonic()
        cursor.wait(300)
        assert time.monotonic() - began >= 0.25
        put(client, "plain", b"news")
        cursor.wait(10_000)
        assert cursor.next(Step()) is Code.OK
        batch = cursor.read()[1]
        assert isinstance(batch, pa.RecordBatch) and batch.column("data").to_pylist() == [b"news"]


@pytest.mark.parametrize("pause", [None, 0, 50])
def test_step_asked_for_ahead_gives_what_one_after_the_other_gives(client: EngineClient, pause: int | None) -> None:
    put(client, "plain", *(b"%d" % n for n in range(100)))
    steps: list[list[tuple[int, int]]] = []
    for again in (False, True):
        steps.append([])
        with client.scan_cursor("plain") as cursor:
            while cursor.next(Step(7), again=again) is Code.OK:
                batch = cursor.read()[1]
                assert isinstance(batch, pa.RecordBatch)
                steps[-1].append((cursor.position, batch.num_rows))
                if pause is not None:  # a message in between, which renews the lease, loses nothing
                    assert cursor.wait(pause) or not again
                    assert cursor.position == steps[-1][-1][0]
            assert cursor.next(Step(7), again=again) is Code.INVALID
    assert steps[0] == steps[1]


def test_live_cursor_asked_ahead_sees_what_comes_after_its_end(client: EngineClient) -> None:
    with client.scan_cursor("plain", Program(mode=Mode.LIVE)) as cursor:
        while cursor.next(Step(7), again=True) is Code.OK:
            pass
        for word in (b"one", b"two"):
            put(client, "plain", word)
            assert cursor.next(Step(7), again=True) is Code.OK
            batch = cursor.read()[1]
            assert isinstance(batch, pa.RecordBatch) and batch.column("data").to_pylist() == [word]
        put(client, "plain", b"three")
        assert cursor.next(Step(7)) is Code.OK
        assert cursor.next(Step(7)) is Code.INVALID


def test_scan_left_with_a_step_under_way_leaves_nothing_open(engine: Engine, client: EngineClient) -> None:
    put(client, "plain", *(b"%d" % n for n in range(100)))
    with client.scan_cursor("plain") as cursor:
        assert cursor.next(Step(7), again=True) is Code.OK
    wait_until(lambda: not engine.scans.tasks(), 60, "no task is left")


def test_blobs_come_as_the_program_asks(client: EngineClient) -> None:
    put(client, "plain", b"x", b"y")
    for output in (Output.ROWS, Output.COLUMNAR, Output.CHUNKS):
        with client.scan_cursor("plain", Program(output=output)) as cursor:
            assert cursor.ask(Ask.READ) == (Code.INVALID, b"")
            assert cursor.ask(Ask.NEXT, encode_step(Step(2))) == (Code.OK, b"")
            code, blob = cursor.ask(Ask.READ)
            assert code is Code.OK and decode_item(output, blob)
            assert cursor.ask(Ask.READ) == (code, blob)


@pytest.mark.parametrize(
    ("topic", "program", "error"),
    [
        ("nowhere", Program(), NotFound),
        ("plain", Program(Seq(1 << 40)), ConfigError),
        ("plain", Program(format="nothing", stages=(Value(Path(("bid",))),)), ConfigError),
        ("prices", Program(output=Output.CHUNKS), ConfigError),
    ],
)
def test_refused_scan_raises_why_and_leaves_nothing_open(
    engine: Engine, client: EngineClient, topic: str, program: Program, error: type[GaussError]
) -> None:
    with pytest.raises(error):
        client.scan_cursor(topic, program)
    wait_until(lambda: not engine.scans.tasks(), 60, "no task is left")


def test_dead_incarnation_is_rejected(client: EngineClient) -> None:
    with pytest.raises(Rejected, match="incarnation"):
        client.scan_cursor("plain", inc=1)


def test_closed_cursor_has_let_go(engine: Engine, client: EngineClient) -> None:
    topic = engine.topic("plain")
    cursor = client.scan_cursor("plain")
    assert topic.source.open_cursors() == 1 and topic.source.watermark() == topic.version()
    cursor.close()
    wait_until(lambda: topic.source.open_cursors() == 0, 60, "the cursor is closed")
    assert topic.source.watermark() is None


def test_cancel_ends_a_wait_of_another_thread(engine: Engine, client: EngineClient) -> None:
    cursor = client.scan_cursor("plain", Program(mode=Mode.LIVE))
    while cursor.next(Step()) is Code.OK:
        pass

    def cancel() -> None:
        wait_until(lambda: engine.topic("plain")._watchers, 60, "the wait is under way")
        cursor.cancel()

    threading.Thread(target=cancel).start()
    with pytest.raises(flight.FlightError):
        cursor.wait(10_000)
    wait_until(lambda: engine.topic("plain").source.open_cursors() == 0, 60, "the pins are free")


def test_reader_without_a_lease_left_loses_its_cursor(
    engine: Engine, client: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gauss.stream.engine.server.cursor_exchange.LEASE_S", 0.2)
    cursor = client.scan_cursor("plain")
    wait_until(lambda: engine.topic("plain").source.watermark() is None, 60, "the pins are free")
    assert cursor.next(Step()) is Code.PANIC
    cursor.close()


def test_i_range_of_a_dead_incarnation_is_rejected_and_one_outside_the_topic_invalid(
    engine: Engine, client: EngineClient
) -> None:
    put(client, "plain", b"one", b"two")
    topic = engine.topic("plain")
    end = topic.version()
    assert sum(batch.num_rows for batch in client.read(Read("plain", topic.inc, end - 2, end))) == 2
    with pytest.raises(Rejected, match=f"no longer has incarnation {topic.inc + 1}"):
        list(client.read(Read("plain", topic.inc + 1, 0, end)))
    for start, stop in ((-5, end), (0, end + 1), (0, 1 << 63)):
        with pytest.raises(ConfigError, match="expected"):
            list(client.read(Read("plain", topic.inc, start, stop)))


@pytest.mark.fault
def test_killed_client_frees_its_pins(engine: Engine) -> None:
    script = (
        "import sys; from pathlib import Path; from gauss.clients.engine.client import EngineClient\n"
        "c = EngineClient.from_file(Path(sys.argv[1])); k = c.scan_cursor('plain'); print('up', flush=True)\n"
        "sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(engine.paths.flight_json)], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    assert engine.topic("plain").source.open_cursors() == 1
    os.kill(child.pid, 9)
    child.wait()
    wait_until(lambda: engine.topic("plain").source.open_cursors() == 0, 60, "the pins are free")


def exchange(client: EngineClient, command: bytes) -> tuple[Any, Any]:
    descriptor = flight.FlightDescriptor.for_command(command)
    writer, reader = client._connection().do_exchange(descriptor, client._options(timeout=60))
    return writer, reader


def test_fuzzed_heads_and_programs_are_refused_and_touch_no_other_cursor(engine: Engine, client: EngineClient) -> None:
    put(client, "plain", *(b"%d" % n for n in range(10)))
    rng = random.Random(7)
    good = encode_program(Program(text="seq"))
    with client.scan_cursor("plain") as other:
        assert other.next(Step(3)) is Code.OK
        for _ in range(150):
            blob = bytearray(good)
            for _ in range(rng.randint(1, 4)):
                blob[rng.randrange(len(blob))] = rng.randrange(256)
            program = bytes(blob) if rng.random() < 0.7 else rng.randbytes(rng.randint(0, 300))
            command = msgspec.json.encode(Open("plain", program)) if rng.random() < 0.9 else rng.randbytes(40)
            writer, reader = exchange(client, command)
            try:
                reader.read_chunk()
            except flight.FlightError as error:
                assert '"code":"config"' in str(error) or '"code":"rejected"' in str(error), error
            writer.done_writing()
            try:
                writer.close()
            except flight.FlightError:
                pass
        assert other.next(Step(3)) is Code.OK
    wait_until(lambda: not engine.scans.tasks(), 60, "no task is left")


def test_fuzzed_steps_leave_the_cursor_where_it_stood(client: EngineClient) -> None:
    put(client, "plain", *(b"%d" % n for n in range(10)))
    rng = random.Random(11)
    good = encode_step(Step(1))
    with client.scan_cursor("plain") as cursor:
        for _ in range(300):
            position = cursor.position
            blob = bytearray(good)
            blob[rng.randrange(len(blob))] = rng.randrange(256)
            code, _ = cursor.ask(Ask.NEXT, bytes(blob) if rng.random() < 0.5 else rng.randbytes(rng.randint(0, 60)))
            assert code in (Code.OK, Code.INVALID, Code.REJECTED)
            assert code is Code.OK or cursor.position == position


def test_unknown_call_ends_that_exchange_with_a_sentence(client: EngineClient) -> None:
    cursor = client.scan_cursor("plain")
    cursor._writer.write_metadata(b"?what")
    with pytest.raises(flight.FlightError, match="unknown call"):
        cursor.ask(Ask.READ)
    cursor.close()


def test_failure_of_a_storage_ends_that_cursor_alone(
    engine: Engine, client: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(client, "plain", b"a", b"b")
    other = client.scan_cursor("quotes")
    with client.scan_cursor("plain") as cursor:
        log = engine.topic("plain")._log  # type: ignore[attr-defined]

        def broken(*_: object) -> None:
            raise ZeroDivisionError("a broken disk")

        with monkeypatch.context() as patch:
            patch.setattr(log, "chunks", broken)
            assert cursor.next(Step()) is Code.PANIC
        assert cursor.next(Step()) is Code.PANIC
        assert other.next(Step()) in (Code.OK, Code.INVALID)
    other.close()
    assert drained(client, "plain", "seq")


@pytest.mark.parametrize(
    "text",
    [
        "select(" + "(" * 300 + ".a" + ")" * 300 + ")",
        f'select(.a == "{"x" * 20_000}")',
        'select(.a | test("(a+)+$("))',
    ],
)
def test_program_beyond_the_bounds_is_refused_with_a_sentence(client: EngineClient, text: str) -> None:
    with pytest.raises(ConfigError):
        client.scan_cursor("plain", text)


def test_pattern_that_would_explode_takes_linear_time(client: EngineClient) -> None:
    put(client, "plain", b'{"a": "' + b"a" * 5_000 + b'!"}')
    found = drained(client, "plain", 'seq(format: "json") | select(.a | test("(a+)+$")) | {a}')
    assert found == []


def test_two_cursors_of_one_client_stand_apart(engine: Engine, client: EngineClient) -> None:
    with client.scan_cursor("plain") as one, client.scan_cursor("plain") as two:
        assert one.opened.scan != two.opened.scan
        assert one.next(Step(1)) is Code.OK and two.next(Step(2)) is Code.OK
        assert (one.position, two.position) == (engine.topic("plain").floor() + 1, engine.topic("plain").floor() + 2)


def test_first_rows_of_a_long_search_come_before_its_end(client: EngineClient) -> None:
    put(client, "plain", *(b'{"rare": %d}' % n for n in range(20)))
    sizes = [batch.num_rows for batch in client.scan("plain", 'seq(format: "json") | select(.rare < 20) | {rare}')]
    assert sizes[:4] == [1, 2, 4, 8] and sum(sizes) == 20


@pytest.mark.parametrize(
    ("topic", "program", "noise"),
    [
        ("prices", 'prefix("Z") | {key}', b'{"symbol": "A", "bid": 1}'),
        ("prices", "select(.bid > 1000000) | {key}", b'{"symbol": "A", "bid": 1}'),
        ("plain", 'seq(format: "json") | select(.bid > 1000000)', b'{"bid": 1}'),
    ],
)
def test_wait_is_long_also_behind_what_the_program_drops(
    client: EngineClient, topic: str, program: str, noise: bytes
) -> None:
    live = parse_scan(program, live=True)
    with client.scan_cursor(topic, live) as cursor:
        put(client, topic, noise)
        while cursor.next(Step()) is Code.OK:
            pass
        began = time.monotonic()
        assert not cursor.wait(300)
        assert time.monotonic() - began >= 0.25
