"""Stopping a run: by drain, by force, at its deadline, and a second run beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.connect.conformance.bench import Bench
from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, Role, check
from gauss.connect.conformance.collector import collected
from gauss.connect.conformance.compare import lost_and_doubled
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.kit_sync import KitSync, Running, described, start, succeeded, wait_for
from gauss.connect.conformance.source_bench import SourceBench
from gauss.connect.conformance.watch import Pause
from gauss.contracts.connector.errors import ConnectorError
from gauss.model.errors import Rejected

RUNS = {Role.SOURCE: "read.full_refresh", Role.DESTINATION: "write.rows"}
SLOW_S = 0.01
ROWS = 600


def _slow(bench: Bench, **more: Any) -> tuple[KitSync, str]:
    """A run that is slow because of the other side, and its stream."""
    if isinstance(bench, SourceBench):
        stream = bench.stream()
        limits = bench.one_at_a_time()
        slow = bench.prepare(stream, bench.folder(), collector={"pause_s": SLOW_S}, limits=limits, **more)
        return slow, stream
    assert isinstance(bench, DestinationBench)
    stream = bench.stream_name("slow")
    generator = {"batch_rows": 10, "pause_s": SLOW_S}
    return bench.prepare(plain(ROWS), stream, generator=generator, **more), stream


def _stopped_in_a_call(bench: Bench, sync: KitSync, stop: Callable[[], None]) -> Running:
    """A run that is stopped while the connector is in a call to its host."""
    pause = Pause(call=4)
    bench.record(sync).on_call = pause
    running = start(sync)
    wait_for(lambda: pause.reached.is_set() or not running.thread.is_alive(), bench.settings.timeout_secs)
    stop()
    pause.resume()
    return running


def forced(bench: Bench) -> None:
    sync, _ = _slow(bench)
    enough = ConnectorError.internal("CANCELLED", "the kit has enough")
    bench.must_end(_stopped_in_a_call(bench, sync, lambda: sync.break_off(enough)), "it was broken off")


def drained(bench: Bench) -> None:
    sync, stream = _slow(bench)
    result = bench.must_end(_stopped_in_a_call(bench, sync, sync.drain), "it was drained")
    check(result.status in ("cancelled", "succeeded"), f"the run {result.status}: {described(result.error)}")
    if isinstance(bench, DestinationBench):
        _goes_on(bench, stream)


def _goes_on(bench: DestinationBench, stream: str) -> None:
    """The next run writes the rest."""
    try:
        bench.needs_reading()
    except NotApplicable:
        return
    bench.write(plain(ROWS), stream)
    found: pa.Table = bench.read_back(stream)
    if text := lost_and_doubled(plain(ROWS), found):
        raise CaseFailed(f"after the next run: {text}")


def late(bench: Bench) -> None:
    sync, _ = _slow(bench, deadline="300ms")
    running = start(sync)
    if not running.ended_within(0.3 + bench.settings.patience_secs):
        bench.hung = True
        raise CaseFailed(f"the run did not end within {bench.settings.patience_secs:g} s after its deadline")
    error = running.result().error
    check(error is None or error.code == "DEADLINE", described(error))


def second_run(bench: Bench) -> None:
    sync, stream = _slow(bench)
    pause = Pause(call=2)
    bench.record(sync).on_call = pause
    running = start(sync)
    try:
        check(pause.reached.wait(bench.settings.timeout_secs), "the connector made no calls to its host")
        other = KitSync(sync.definition, bench.target.base_dir, sync.data_dir)
        try:
            other.run()
        except Rejected:
            pass
        else:
            raise CaseFailed("the second run was not refused")
    finally:
        pause.resume()
    succeeded(bench.finish(running))
    if isinstance(bench, SourceBench):
        folder = sync.definition.destination.config["folder"]
        check(collected(Path(folder), stream, full=True).num_rows, "the first run has no rows")


for _name, _expected, _run in (
    ("stop.force", "A run that is broken off ends soon.", forced),
    ("stop.drain", "A run that is drained ends soon, and the next one goes on.", drained),
    ("stop.deadline", "A run past its deadline ends soon.", late),
    ("stop.second_run", "A second run beside the first is refused, and the first one is not disturbed.", second_run),
):
    for _role, _after in RUNS.items():
        _gates = (_after,) if _name == "stop.force" else (_after, "stop.force")
        CASES.add(_role, _name, _expected, _run, _gates)
