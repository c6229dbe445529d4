"""Stages: kept until a publish names them, on disk beyond the memory limit, and removed by generation."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from gauss.clients.engine.positions import At
from gauss.clients.engine.task_messages import Stage, StageDead
from gauss.contracts.letter import Letter
from gauss.model.errors import ProtocolError
from gauss.stream.engine.delivery.stages import Stages


def batch(*records: bytes) -> pa.RecordBatch:
    return pa.record_batch({"ts_ms": pa.array([1] * len(records), pa.int64()), "data": pa.array(records, pa.binary())})


def head(name: str, generation: int = 1) -> Stage:
    return Stage(name, "p", generation, "out")


def content(stages: Stages, name: str) -> list[bytes]:
    return [data for found in stages.name("p", 1, "out", [name])[0].read() for data in found.column("data").to_pylist()]


def test_stage_beyond_the_cap_goes_to_disk_and_reads_the_same(tmp_path: Path) -> None:
    stages = Stages(tmp_path, 100)
    stages.put(head("small"), [batch(b"a")])
    assert stages.put(head("big"), [batch(b"x"), batch(b"y" * 200), batch(b"z")]) == 3
    assert content(stages, "big") == [b"x", b"y" * 200, b"z"]
    assert content(stages, "small") == [b"a"]
    assert len(list(tmp_path.glob("*.arrows"))) == 1
    stages.done(["big", "small"])
    assert stages.used == 0
    assert list(tmp_path.iterdir()) == []


def test_unknown_stage_and_stage_of_another_generation_are_refused(tmp_path: Path) -> None:
    stages = Stages(tmp_path, 1000)
    stages.put(head("s"), [batch(b"a")])
    with pytest.raises(ProtocolError, match="unknown stage"):
        stages.name("p", 1, "out", ["s", "other"])
    with pytest.raises(ProtocolError, match="unknown stage"):
        stages.name("p", 2, "out", ["s"])
    with pytest.raises(ProtocolError, match="unknown stage"):
        stages.name("p", 1, "elsewhere", ["s"])


def test_abort_removes_only_what_no_publish_has_named(tmp_path: Path) -> None:
    stages = Stages(tmp_path, 1000)
    stages.put(head("named"), [batch(b"a")])
    stages.put(head("free"), [batch(b"b")])
    stages.name("p", 1, "out", ["named"])
    assert stages.abort("p", 1, ["named", "free", "never"]) == 1
    assert content(stages, "named") == [b"a"]


def test_sweep_removes_lower_generations_of_that_processor_alone(tmp_path: Path) -> None:
    stages = Stages(tmp_path, 1000)
    stages.put(head("old"), [batch(b"a")])
    stages.put(Stage("other", "q", 1, "out"), [batch(b"b")])
    stages.put(head("new", 2), [batch(b"c")])
    stages.sweep("p", 2)
    assert stages.abort("p", 1, ["old"]) == 0
    assert stages.abort("q", 1, ["other"]) == 1
    assert stages.abort("p", 2, ["new"]) == 1


def test_stage_put_again_replaces_the_first_and_frees_it(tmp_path: Path) -> None:
    stages = Stages(tmp_path, 1000)
    stages.put(head("s"), [batch(b"first")])
    used = stages.used
    stages.put(head("s"), [batch(b"again")])
    assert stages.used == used
    assert content(stages, "s") == [b"again"]


def test_failed_stream_leaves_nothing_behind(tmp_path: Path) -> None:
    stages = Stages(tmp_path, 0)

    def broken() -> object:
        yield batch(b"a")
        raise RuntimeError("client went away")

    with pytest.raises(RuntimeError):
        stages.put(head("s"), broken())  # type: ignore[arg-type]
    assert (stages.used, list(tmp_path.iterdir())) == (0, [])


def test_dead_letters_belong_to_the_epoch_that_holds_their_range(tmp_path: Path) -> None:
    stages = Stages(tmp_path, 0)
    for start, stop in ((20, 30), (10, 20), (30, 40)):
        stages.dead.put(StageDead("p", 1, "in", 5, start, stop, [Letter(offset=start)]))
    stages.dead.put(StageDead("p", 1, "in", 5, 10, 20, [Letter(offset=11)]))
    found = stages.dead.of("p", {"in": At(5, 10)}, {"in": At(5, 30)})
    assert [letter.offset for dead in found for letter in dead.letters] == [11, 20]
    stages.dead.done(found)
    assert [dead.start for dead in stages.dead.of("p", {"in": At(4, 99)}, {"in": At(5, 40)})] == [30]


def test_dead_letters_of_partitions_are_kept_apart(tmp_path: Path) -> None:
    stages = Stages(tmp_path, 0)
    for partition in (0, 1):
        stages.dead.put(StageDead("p", 1, "in", 5, 0, 10, [Letter(offset=partition)], partition))
    (found,) = stages.dead.of("p", {}, {"in/1": At(5, 10, partition=1)})
    assert found.letters == [Letter(offset=1)]
    stages.dead.done([found])
    assert [dead.partition for dead in Stages(tmp_path, 0).dead.of("p", {}, {"in": At(5, 10)})] == [0]


def test_files_of_an_earlier_engine_are_removed(tmp_path: Path) -> None:
    (tmp_path / "7.arrows").write_bytes(b"old")
    Stages(tmp_path, 0)
    assert list(tmp_path.iterdir()) == []


def test_dead_letters_outlive_the_engine_and_go_with_their_generation(tmp_path: Path) -> None:
    Stages(tmp_path, 1 << 20).dead.put(StageDead("p", 1, "in", 5, 0, 10, [Letter(offset=3)]))
    reopened = Stages(tmp_path, 1 << 20)
    (found,) = reopened.dead.of("p", {"in": At(5, 0)}, {"in": At(5, 10)})
    assert found.letters == [Letter(offset=3)]
    reopened.sweep("p", 2)
    assert not reopened.dead.of("p", {"in": At(5, 0)}, {"in": At(5, 10)})
    assert not Stages(tmp_path, 1 << 20).dead.of("p", {"in": At(5, 0)}, {"in": At(5, 10)})
