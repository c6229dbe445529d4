"""A pipeline without Spark: it starts at once, survives kills, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import struct
from collections.abc import Callable

import pytest

from helpers.feeds import Collector, connect, send
from helpers.pipelines import example_1
from helpers.run import Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]


def test_example_1_passes_bytes_that_no_format_could_parse(gauss: Make) -> None:
    feed, out = free_port(), free_port()
    gauss(example_1(feed, out)).start()
    chance = random.Random(1)
    lines = [bytes(b for b in chance.randbytes(chance.randint(0, 200)) if b != 10) for _ in range(5_000)]
    collector = Collector(out)
    send(feed, b"".join(line + b"\n" for line in lines))
    assert collector.wait(len(lines)) == lines
    collector.close()


def test_no_jvm_is_started_when_no_processor_needs_spark(gauss: Make) -> None:
    run = gauss(example_1(free_port(), free_port())).start()
    assert not run.named("java")


def test_sigterm_stops_with_exit_0_and_leaves_no_process(gauss: Make) -> None:
    run = gauss(example_1(free_port(), free_port())).start()
    assert run.stop() == 0
    wait_until(lambda: not run.tree(), what="no process left")
    assert not (run.data_dir / "engine.json").exists()


@pytest.mark.fault
def test_killed_control_leaves_nothing_and_a_second_run_works_at_once(gauss: Make) -> None:
    feed, out = free_port(), free_port()
    run = gauss(example_1(feed, out)).start()
    assert run.process is not None
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    run.start()
    collector = Collector(out)
    send(feed, b"after\n")
    assert collector.wait(1)[-1] == b"after"
    collector.close()


@pytest.mark.fault
def test_killed_engine_comes_back_and_file_topic_keeps_all_acknowledged_records(gauss: Make) -> None:
    feed, out = free_port(), free_port()
    run = gauss(example_1(feed, out, "file", "{ }")).start()
    acknowledged = 0
    sent = 0
    for _ in range(3):
        with connect(feed) as sock:
            batch = b"".join(b"%d\n" % n for n in range(sent, sent + 20_000))
            sock.sendall(batch)
            count = 0
            while count < 10_000:
                data = sock.recv(8, 0x100)  # MSG_WAITALL
                assert len(data) == 8
                (count,) = struct.unpack(">Q", data)
            run.kill("gauss.stream.engine")
            acknowledged += count
            # A record that was not acknowledged may or may not be stored: the end of the log decides.
            run.wait_ready()
            end = run.topic("quotes.raw")["end"]
            assert end >= acknowledged
            acknowledged = end
            sent += 20_000
    collector = Collector(out)
    lines = collector.wait(acknowledged)
    collector.close()
    assert len(lines) == acknowledged
    # The records of each round are a prefix of what was sent, in order, once.
    values = [int(line) for line in lines]
    assert values == sorted(set(values))


def test_taken_port_is_one_sentence_and_an_exit_code(gauss: Make) -> None:
    feed, out = free_port(), free_port()
    first = gauss(example_1(feed, out)).start()
    second = gauss(example_1(feed, out)).start(ready=False)
    assert second.process is not None
    assert second.process.wait(180) not in (0, None)
    said = second.output.read_text()
    assert str(feed) in said or str(out) in said  # whichever port is bound first
    assert "Traceback" not in said
    first.wait_ready()
    assert first.api("/api/health")["processes"][0]["restarts"] == 0


def test_second_run_on_the_same_data_directory_is_refused_with_the_pid(gauss: Make) -> None:
    run = gauss(example_1(free_port(), free_port())).start()
    assert run.process is not None
    done = run.cli("run", str(run.config), "--quiet", check=False)
    assert done.returncode != 0
    assert str(run.process.pid) in done.stdout + done.stderr


def test_secret_of_the_environment_shows_nowhere(gauss: Make) -> None:
    feed = free_port()
    run = gauss(example_1(feed, free_port()).replace(f"port = {feed}", 'port = "${FEED_PORT}"'))
    run.environment["FEED_PORT"] = str(feed)
    run.start()
    told = json.dumps([run.api(path) for path in ("/api/health", "/api/graph", "/api/topics", "/api/processors")])
    printed = run.cli("topics").stdout + run.cli("processors", "ls").stdout
    assert run.stop() == 0
    logged = "".join(path.read_text() for path in (run.data_dir / "logs").iterdir())
    # Only as a whole number: the digits may be part of a longer one by chance.
    assert not re.search(rf"(?<!\d){feed}(?!\d)", told + printed + logged + run.output.read_text())
