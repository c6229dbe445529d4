"""Records as test files write them, and the pipeline that a test runs."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gauss.config.check import check_or_raise
from gauss.config.spec import Pipeline
from gauss.model.errors import ConfigError
from gauss.stream.flowtest.cases import CaseStep, Expect
from gauss.stream.flowtest.junit import write_junit
from gauss.stream.flowtest.records import Codec, wanted, with_nulls
from gauss.stream.flowtest.run import Problem, Result
from gauss.stream.flowtest.stripped import stripped

PIPELINE = """
[spark]
master = "spark://far:7077"

[[topics]]
name = "in"
storage = "file"
storage_config = { data_dir = "./data" }

[[topics]]
name = "rows"
storage = "clickhouse"
storage_config = { format = "numbers", host = "far", port = 8123, password = "secret", flush_interval = "10s" }

[[topics]]
name = "shared"
storage = "kafka"
storage_config = { brokers = ["far:9093"], topic = "production", create = false, security_protocol = "sasl_ssl",
    username = "u", password = "secret", ca_file = "ca.pem", key_field = "n", format = "numbers" }

[[formats]]
name = "numbers"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }] }

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "in" }
config = { port = 9100, input = { format = "numbers", framing = "length_prefixed", prefix_type = "u16be" } }

[[processors]]
name = "copy"
plugin = "passthrough"
source = { topic = "in", read = "offset" }
target = { topic = "rows" }
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "ca.pem").touch()
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    return check_or_raise(tmp_path)[0]


def test_records_are_text_tables_by_the_format_base64_or_a_file(pipeline: Pipeline, tmp_path: Path) -> None:
    codec = Codec(pipeline, tmp_path)
    given = CaseStep(send="in", records=["text", {"n": 1}, {"n": {"null": True}}])
    text, table, null = codec.encoded(given, "in")
    assert [text, json.loads(table), json.loads(null)] == [b"text", {"n": 1}, {"n": None}]
    assert codec.encoded(CaseStep(send="in", base64=["/w=="]), "in") == [b"\xff"]
    (tmp_path / "lines").write_bytes(b"a\nb")
    (tmp_path / "framed").write_bytes(b"\0\1a\0\2bc")
    assert codec.encoded(CaseStep(send="in", file=Path("lines")), "in") == [b"a", b"b"]
    assert codec.encoded(CaseStep(send="feed", file=Path("framed")), "in") == [b"a", b"bc"]
    with pytest.raises(ConfigError, match="can't be split by the framing of feed"):
        codec.encoded(CaseStep(send="feed", file=Path("lines")), "in")


def test_found_records_are_decoded_only_for_expectations_with_tables(pipeline: Pipeline, tmp_path: Path) -> None:
    codec = Codec(pipeline, tmp_path)
    data = [b'{"n":1}', b"bad"]
    assert codec.decoded(Expect(topic="in", records=["x"]), data) == data
    assert codec.decoded(Expect(topic="in", records=[{"n": 1}]), data) == [{"n": 1}, b"bad"]


def test_a_table_that_says_null_is_a_null_at_any_depth() -> None:
    assert with_nulls({"a": {"null": True}, "b": [{"null": True}], "c": {"null": 1}}) == {
        "a": None,
        "b": [None],
        "c": {"null": 1},
    }
    assert wanted(Expect(topic="t", records=["x", {"a": {"null": True}}])) == [b"x", {"a": None}]
    assert wanted(Expect(topic="t", base64=["/w=="])) == [b"\xff"]


def test_a_test_binds_no_port_and_reaches_no_server_outside(pipeline: Pipeline) -> None:
    run = stripped(pipeline, lambda: "127.0.0.1:9092")
    assert [entry.name for entry in run.processors] == ["copy"]
    assert run.topic("in").storage_config == {}
    assert run.topic("rows").storage_config == {"format": "numbers", "flush_interval": "20ms"}
    assert run.spark.master == "local[*]"
    shared = run.topic("shared").storage_config
    assert shared.pop("topic") not in ("production", stripped(pipeline, str).topic("shared").storage_config["topic"])
    own = {"key_field": "n", "format": "numbers", "topic_config": {"retention.ms": "-1"}}
    assert shared == {"brokers": ["127.0.0.1:9092"], **own}


def test_junit_file_has_a_suite_per_file_and_the_problems_of_each_case(tmp_path: Path) -> None:
    bad = Result(Path("a.test.toml"), "bad <&>", 0.5, [Problem("topic t", ["row 1 is missing: <x>"])])
    results = [Result(Path("a.test.toml"), "good", 1.0), bad, Result(Path("b.test.toml"), "other", 2.0)]
    write_junit(results, tmp_path / "deep" / "junit.xml")
    suites = ElementTree.parse(tmp_path / "deep" / "junit.xml").getroot().findall("testsuite")
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in suites] == [
        ("a.test.toml", "2", "1"),
        ("b.test.toml", "1", "0"),
    ]
    failure = suites[0].findall("testcase")[1].find("failure")
    assert failure is not None and failure.text == "topic t\n  row 1 is missing: <x>"
