"""Parts of the driver that need neither a JVM nor an engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss import registry
from gauss.clients.engine.positions import At
from gauss.config.spec import Pipeline, SparkSection
from gauss.contracts.letter import Letter
from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import ConfigError, ProtocolError, Unavailable
from gauss.model.paths import DataDir
from gauss.plugins.formats.json.codec import JsonFormat
from gauss.plugins.formats.json.spec import JsonConfig
from gauss.spark.jvm import JAVA_CLASSES
from gauss.spark.session import settings
from gauss.stream.driver.errors import is_transient, sentence
from gauss.stream.driver.planning import detect, fingerprint
from gauss.stream.driver.planning.checkpoint import Checkpoint
from gauss.stream.driver.planning.fingerprint import plan_hash
from gauss.stream.driver.planning.reads import BLOCK_ROWS
from gauss.stream.driver.planning.refs import FieldRef, FormatRef
from gauss.stream.driver.planning.writes import ResultWrite, WriteWindows
from gauss.stream.driver.queries import sink
from gauss.stream.driver.queries.sink import offsets_of, stage_batch
from gauss.stream.driver.tasks.pace import Pace
from gauss.stream.driver.tasks.reading import HeartbeatPart, Part, Range, distribute, heartbeats, ranges, rows_of
from gauss.stream.graph import table_queries


def test_ranges_are_cut_at_multiples_of_the_block_wherever_they_start() -> None:
    found = ranges({"t": At(1, 10)}, {"t": At(1, BLOCK_ROWS * 2 + 5)})
    assert [(r.start, r.stop) for r in found] == [
        (10, BLOCK_ROWS),
        (BLOCK_ROWS, BLOCK_ROWS * 2),
        (BLOCK_ROWS * 2, BLOCK_ROWS * 2 + 5),
    ]


def test_ranges_of_a_dead_incarnation_hold_what_lies_in_the_current_one() -> None:
    assert ranges({"t": At(1, 100)}, {"t": At(2, 7)}) == [Range("t", 2, 0, 7)]


def test_ranges_of_each_partition_come_in_order_and_carry_it() -> None:
    start = {f"t/{number}": At(1, 3, partition=number) for number in (2, 10)}
    end = {f"t/{number}": At(1, 5, partition=number) for number in (10, 2)} | {"t": At(1, 4)}
    assert ranges(start, end) == [
        Range("t", 1, 0, 4),
        Range("t", 1, 3, 5, partition=2),
        Range("t", 1, 3, 5, partition=10),
    ]


def test_ranges_of_an_idle_batch_are_none() -> None:
    assert ranges({"t": At(1, 5), "_retry.p": At(3, 0)}, {"t": At(1, 5), "_retry.p": At(3, 0)}) == []


def test_ranges_of_a_latest_reader_hold_the_newest_record() -> None:
    assert ranges({"t": At(1, 5)}, {"t": At(1, 90)}, "latest") == [Range("t", 1, 89, 90, since=5)]


def test_ranges_shared_out_among_tasks_are_the_same_ranges_in_order_and_about_as_many_records_each() -> None:
    found: list[Part] = [*ranges({"t": At(1, 10)}, {"t": At(1, BLOCK_ROWS * 5 + 5)})]
    made = distribute(found, 2)
    assert [part for task in made for part in task.parts] == found
    sizes = [sum(part.size for part in task.parts) for task in made]
    assert max(sizes) - min(sizes) <= BLOCK_ROWS
    assert [task.parts for task in distribute(found, 1)] == [found]
    assert [task.parts for task in distribute(found[:1], 4)] == [found[:1]]
    beat = HeartbeatPart(7)
    assert [task.parts for task in distribute([beat], 2)] == [[beat]]


def test_heartbeats_are_apart_from_ranges_and_come_only_where_time_has_moved() -> None:
    start, end = {"a": At(1, 5), "b": At(1, 5, beat=7)}, {"a": At(1, 6, beat=9), "b": At(1, 5, beat=7)}
    assert heartbeats(start, end) == [HeartbeatPart(9)]
    assert ranges(start, end) == [Range("a", 1, 5, 6)]


def test_rows_of_a_batch_are_counted_by_its_offsets() -> None:
    end = '{"t":{"inc":1,"off":200000},"_retry.p":{"inc":3,"off":2}}'
    first = {"sources": [{"startOffset": None, "endOffset": end}]}
    assert rows_of(first, {"t": At(1, 50), "_retry.p": At(3, 0)}) == 199_952
    later = {"sources": [{"startOffset": {"t": {"inc": 1, "off": 7}}, "endOffset": {"t": {"inc": 1, "off": 9}}}]}
    assert rows_of(later, {}) == 2
    assert rows_of(later, {}, "latest") == 1


def test_pace_grows_while_batches_are_full_and_quick() -> None:
    pace = Pace(200, 100_000)
    for second in range(5):
        pace.given(second, pace.rows)
        pace.asked(second + 0.05)
    assert pace.rows == 100_000


def test_pace_of_a_table_stays_at_what_one_insert_should_have() -> None:
    pace = Pace(1_000, 500_000, 50_000)
    assert pace.rows == 50_000
    for second in range(0, 100, 10):
        pace.given(second, pace.rows)
        pace.asked(second + 9)
    assert pace.rows == 50_000


def test_pace_shrinks_after_a_slow_batch_and_stays_after_a_small_one() -> None:
    pace = Pace(200, 100_000)
    pace.given(0, 20_000)
    pace.asked(2.0)
    assert pace.rows == 10_000
    pace.given(3, 5)
    pace.asked(3.01)
    assert pace.rows == 10_000


def test_pace_lets_batches_last_longer_far_behind() -> None:
    pace = Pace(200, 100_000)
    pace.given(0, 20_000, lag=1_000_000)
    pace.asked(0.4)
    assert pace.rows == 50_000
    pace.given(1, 50_000, lag=60_000)
    pace.asked(1.4)
    assert pace.rows == 25_000


def test_offsets_of_an_epoch_come_from_sparks_log(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"batchWatermarkMs":0}\n{"t": {"inc": 1, "off": 9}}')
    assert offsets_of(str(tmp_path), 3) == {"t": At(1, 9)}
    with pytest.raises(ProtocolError, match="epoch 4"):
        offsets_of(str(tmp_path), 4)


def started(tmp_path: Path) -> tuple[Checkpoint, str]:
    checkpoint = Checkpoint(DataDir(tmp_path), "p", "hash")
    identity = checkpoint.open()
    checkpoint.mark_started()
    (checkpoint.spark / "offsets").mkdir(parents=True)
    (checkpoint.spark / "metadata").write_text('{"id":"x"}')
    (checkpoint.spark / "offsets" / "0").write_text('v1\n{}\n{"t":{"inc":1,"off":9}}')
    return checkpoint, identity


def test_checkpoint_knows_that_it_takes_the_place_of_another_plans(tmp_path: Path) -> None:
    first, second = (Checkpoint(DataDir(tmp_path), "p", name) for name in ("one", "two"))
    first.open()
    assert not first.replaces_another()
    first.mark_started()
    second.open()
    assert second.replaces_another()
    assert not first.replaces_another()
    second.mark_started()
    assert not second.replaces_another()  # it has run, so a loss of its files is a different case


def test_checkpoint_keeps_its_identity_while_it_can_be_read(tmp_path: Path) -> None:
    checkpoint, identity = started(tmp_path)
    assert checkpoint.open() == identity
    assert checkpoint.planned() == 0
    assert checkpoint.committed() is None


@pytest.mark.parametrize("damage", ["gone", "torn", "no metadata"])
def test_lost_or_unreadable_checkpoint_gets_a_new_identity(tmp_path: Path, damage: str) -> None:
    checkpoint, identity = started(tmp_path)
    if damage == "gone":
        shutil.rmtree(checkpoint.spark)
    elif damage == "torn":
        (checkpoint.spark / "offsets" / "1").write_text("v1\n{}\n{half")
    else:
        (checkpoint.spark / "metadata").unlink()
    assert checkpoint.open() != identity
    assert not checkpoint.spark.exists()


def test_epochs_that_are_numbered_anew_are_of_another_series(tmp_path: Path) -> None:
    checkpoint, identity = started(tmp_path)
    assert checkpoint.series == identity
    files = shutil.copytree(checkpoint.spark, tmp_path / "files")
    checkpoint.clear()
    assert (series := checkpoint.series) != identity
    shutil.copytree(files, checkpoint.spark)  # by the next start
    assert checkpoint.open() == identity
    assert Checkpoint(DataDir(tmp_path), "p", "hash").series == series
    checkpoint.clear()
    assert (renewed := checkpoint.open()) != identity, "its files are missing"
    assert checkpoint.series == renewed


def test_skipping_needs_a_planned_epoch(tmp_path: Path) -> None:
    checkpoint, _ = started(tmp_path)
    with pytest.raises(ConfigError, match="nothing to skip"):
        checkpoint.mark_committed(5)
    checkpoint.mark_committed(0)
    assert checkpoint.committed() == 0


def processor(where: str) -> Pipeline:
    entry = {
        "name": "p",
        "plugin": "filter",
        "source": {"topic": "a", "read": "offset"},
        "target": {"topic": "b"},
        "config": {"input": {"format": "json"}, "where": where},
    }
    topics = [{"name": name, "storage": "memory"} for name in "ab"]
    return Pipeline.model_validate({"topics": topics, "processors": [entry]})


def test_plan_hash_changes_with_the_plan_alone() -> None:
    one, same, other = processor(".a > 1"), processor(".a > 1"), processor(".a > 2")
    assert plan_hash(one, one.processors[0]) == plan_hash(same, same.processors[0])
    assert plan_hash(one, one.processors[0]) != plan_hash(other, other.processors[0])


def test_plan_hash_changes_with_the_layout_of_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    one = processor(".a > 1")
    before = plan_hash(one, one.processors[0])
    found = registry.spec(ProcessorSpec, "filter")
    monkeypatch.setattr(fingerprint, "spec", lambda *_: replace(found, state_layout=2))
    assert plan_hash(one, one.processors[0]) != before


def test_plan_hash_is_there_for_the_query_of_a_table() -> None:
    tables = Pipeline.model_validate({"topics": [{"name": "t", "storage": "clickhouse"}]})
    (query,) = table_queries(tables)
    assert plan_hash(tables, query)


def test_staged_records_are_bytes_as_they_came_or_columns_encoded() -> None:
    plan = ResultWrite("f", "p", 1, "t", FormatRef("json"))
    passed = stage_batch(pa.record_batch({"_ts_ms": [7], "_data": [b"x"]}), plan, [])
    assert passed.to_pylist() == [{"ts_ms": 7, "data": b"x"}]
    encoded = stage_batch(pa.record_batch({"a": [1]}), plan, [])
    assert encoded.to_pylist() == [{"ts_ms": None, "data": b'{"a":1}'}]


def test_a_row_that_cannot_be_encoded_becomes_a_letter_and_costs_itself() -> None:
    fields = [{"name": "a", "type": "int2"}, {"name": "b", "type": "text"}]
    plan = ResultWrite("f", "p", 1, "t", FormatRef("pg-binary", {"fields": fields}))
    letters: list[Letter] = []
    batch = pa.record_batch({"_ts_ms": [7, 8, 9], "a": [1, 70_000, 2], "b": ["x", "y", "z"]})
    assert [row["ts_ms"] for row in stage_batch(batch, plan, letters).to_pylist()] == [7, 9]
    [letter] = letters
    assert (letter.stage, letter.reason, letter.ts_ms) == ("encode", "unencodable", 8)
    assert json.loads(letter.data) == {"a": 70_000, "b": "y"}


def test_kinds_of_a_sample_decide_types() -> None:
    records = [b'{"i":1,"n":1,"s":"a","l":[1.5],"m":1,"o":{"x":true}}', b'{"i":2,"n":1.5,"m":"b"}', b"bad"]
    found = detect.decide(["i", "n", "s", "l", "m", "$.o.x", "none"], records, JsonFormat(JsonConfig()))
    assert {name: ref.type for name, ref in found.items()} == {
        "i": "int64",
        "n": "double",
        "s": "string",
        "l": "array",
        "m": "json",
        "$.o.x": "bool",
        "none": "json",
    }
    assert found["l"].attrs == {"element": "double"}


def test_whole_numbers_beyond_int64_are_not_rounded() -> None:
    records = [b'{"u":18446744073709551615,"d":18446744073709551615,"i":-1,"b":18446744073709551616,"l":[1]}']
    records.append(b'{"u":0,"d":-1,"i":9223372036854775807,"b":1,"l":[18446744073709551615]}')
    found = detect.decide(["u", "d", "i", "b", "l"], records, JsonFormat(JsonConfig()))
    assert [found[name].type for name in "udib"] == ["uint64", "double", "int64", "double"]
    assert found["l"].attrs == {"element": "uint64"}


def test_decided_kinds_survive_in_their_file(tmp_path: Path) -> None:
    kinds = {"a": FieldRef("a", "array", {"element": "string"})}
    detect.save(tmp_path / "kinds.json", kinds)
    assert detect.load(tmp_path / "kinds.json") == kinds
    assert detect.load(tmp_path / "other.json") == {}


JAVA_TRACE = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0 failed
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "x.py", line 1, in write
gauss.model.errors.Fenced: processor "p" was claimed again
gauss error: {"code": "fenced", "message": "processor \\"p\\" was claimed again", "hint": "", "retryable": false}
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
Caused by: java.lang.RuntimeException: boom
"""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (JAVA_TRACE, 'processor "p" was claimed again'),
        (ConfigError("no such field"), "no such field"),
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `bidd` cannot be resolved. SQLSTATE: 42703; line 1",
            "A column with name `bidd` cannot be resolved.",
        ),
        ("java.io.IOException: No space left on device\n\tat x.y(Z.java:1)", "No space left on device (IOException)"),
        ("", "Spark gave no reason"),
        (
            "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. This output mode is"
            " not supported for streaming aggregations without watermark on streaming DataFrames/DataSets.",
            "it groups records (GROUP BY, DISTINCT, an aggregate) without a window, and a stream has no end at which a"
            " group would be complete; use the window or aggregator processor, or dedup for DISTINCT; in a function:"
            " withWatermark",
        ),
    ],
)
def test_an_error_becomes_one_sentence(error: Any, expected: str) -> None:
    found = sentence(error)
    assert found.startswith(expected)
    assert "\n" not in found and "\tat " not in found


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (JAVA_TRACE, False),
        (JAVA_TRACE.replace('"retryable": false', '"retryable": true'), True),
        ("java.io.IOException: No space left on device", True),
        ("gauss.model.errors.Unavailable: only a class path", False),
        (Unavailable("no answer"), True),
        (ConfigError("no such field"), False),
    ],
)
def test_error_is_transient_by_its_code_or_as_a_full_disk(error: Any, expected: bool) -> None:
    assert is_transient(error) is expected


def test_local_master_retries_tasks_and_a_cluster_gets_no_class_of_ours(tmp_path: Path) -> None:
    local = settings(SparkSection(), DataDir(tmp_path))
    assert local["spark.master"] == f"local[{os.cpu_count()},3]"
    assert local["spark.hadoop.fs.file.impl"] == "gauss.LocalFiles"
    cluster = settings(SparkSection(master="spark://h:7077", conf={"spark.ui.enabled": "true"}), DataDir(tmp_path))
    assert cluster["spark.master"] == "spark://h:7077"
    assert "spark.hadoop.fs.file.impl" not in cluster
    assert cluster["spark.ui.enabled"] == "true"


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[6,3]"),
        ("local[4]", "local[9,3]"),
        ("local[4,1]", "local[4,1]"),
        ("spark://h:7077", "spark://h:7077"),
    ],
)
def test_local_master_has_a_slot_for_each_standing_task_unless_its_retries_are_given(
    tmp_path: Path, master: str, expected: str
) -> None:
    found = settings(SparkSection(master=master), DataDir(tmp_path), standing=5)
    assert found["spark.master"] == expected


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_the_shipped_class_is_what_its_source_compiles_to(tmp_path: Path) -> None:
    import zipfile

    import pyspark

    hadoop = next((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"))
    source = JAVA_CLASSES.with_name("LocalFiles.java")
    subprocess.run(["javac", "--release", "17", "-cp", hadoop, "-d", tmp_path, source], check=True)
    with zipfile.ZipFile(JAVA_CLASSES) as jar:
        shipped = {name: jar.read(name) for name in jar.namelist() if name.endswith(".class")}
    compiled = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*.class")}
    assert sorted(shipped) == sorted(compiled)

    def members(classes: Path | str) -> str:
        command = ["javap", "-p", "-cp", f"{classes}:{hadoop}", "gauss.LocalFiles", "gauss.LocalFiles$Raw"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert members(JAVA_CLASSES) == members(tmp_path)


def test_options_never_hold_the_token() -> None:
    from gauss.stream.driver.planning.reads import ReadRecords

    option = json.loads(ReadRecords("/run/flight.json", "p", 1, start={}).option())
    assert option["flight"] == "/run/flight.json"
    assert not [key for key in option if "token" in key]


def test_closed_windows_are_staged_in_the_order_of_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    staged: list[dict[str, Any]] = []

    def keep(_plan: ResultWrite, _topic: str, parts: list[pa.RecordBatch], *_: Any, **__: Any) -> str:
        staged.extend(row for part in parts for row in part.to_pylist())
        return "stage"

    monkeypatch.setattr(sink, "stage_records", keep)
    plan = WriteWindows("", "p", 1, "out", FormatRef("json"), checkpoint="c", checkpoint_dir="", series="c")
    batches = [pa.record_batch({"_ts_ms": times, "k": keys}) for times, keys in (([20, 10], "ab"), ([10, 30], "cd"))]
    plan.run(batches, sink.TaskStages(), 0)
    assert [(row["ts_ms"], json.loads(row["data"])["k"]) for row in staged] == [
        (10, "b"),
        (10, "c"),
        (20, "a"),
        (30, "d"),
    ]
