"""Test files are checked as a whole, and every fault has its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.model.errors import ConfigError
from gauss.stream.flowtest.cases import FIRST_MS
from gauss.stream.flowtest.judge import find_test_files, read_suites

PIPELINE = """
[[formats]]
name = "json"
plugin = "json"

[[topics]]
name = "quotes.raw"
storage = "memory"

[[topics]]
name = "quotes.copy"
storage = "memory"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "quotes.raw" }
config = { port = 9100, input = { framing = "newline", delimiter = "\\n" } }

[[processors]]
name = "copy"
plugin = "passthrough"
source = { topic = "quotes.raw", read = "offset" }
target = { topic = "quotes.copy" }
"""


def write(folder: Path, tests: str, pipeline: str = PIPELINE) -> Path:
    (folder / "pipeline.toml").write_text(pipeline)
    (folder / "pipeline.test.toml").write_text(tests)
    return folder / "pipeline.test.toml"


def faults(folder: Path, tests: str, pipeline: str = PIPELINE) -> list[str]:
    file = write(folder, tests, pipeline)
    with pytest.raises(ConfigError) as error:
        read_suites([file])
    return error.value.message.replace(f"{folder}/", "").splitlines()[1:]


def test_a_sound_file_gives_its_cases_with_the_topic_that_each_source_fills(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
[[cases]]
name = "one"
steps = [{ send = "feed", records = ["x"] }, { advance = "1m" }, { restart = "engine" }]
expect = [{ topic = "quotes.copy", count = 1 }]
""",
    )
    (suite,) = read_suites([file])
    (case,) = suite.cases
    assert suite.topic_of("feed") == suite.topic_of("quotes.raw") == "quotes.raw"
    assert [case.steps[1].advance, case.steps[2].restart, case.clock_ms] == [60_000, "engine", FIRST_MS]


def test_faults_of_kind_do_not_hide_faults_of_meaning(tmp_path: Path) -> None:
    told = faults(
        tmp_path,
        """
[[cases]]
name = "one"
steps = [
    { send = "quotes.row", records = ["x"] },
    { advance = "soon" },
    { restart = "jvm" },
]
expect = [{ topic = "quotes.copy" }, { topik = "quotes.copy" }]
dead_letters = 3

[[cases]]
nam = "two"
""",
    )
    expected = [
        (5, 'no topic "quotes.row"'),
        (6, '"advance" is not valid — expected a duration'),
        (7, '"restart" is not valid — expected'),
        (9, "needs records — expected one of records, base64, count"),
        (9, '"topic" is missing'),
        (9, 'unknown key "topik"'),
        (10, '"dead_letters" is not valid — expected an array of tables, found 3'),
        (12, "it expects nothing"),
        (12, '"name" is missing'),
        (13, 'unknown key "nam" — expected one of'),
    ]
    assert len(told) == len(expected), "\n".join(told)
    for number, words in expected:
        assert any(line.startswith(f"pipeline.test.toml:{number}:") and words in line for line in told), (words, told)


def test_faults_of_sound_tables_are_told_with_what_was_meant(tmp_path: Path) -> None:
    told = faults(
        tmp_path,
        """
[[cases]]
name = "one"
steps = [
    { send = "quotes.row", records = ["x"] },
    { send = "quotes.raw" },
    { send = "quotes.raw", advance = "1m" },
    { send = "quotes.raw", base64 = ["?"] },
    { send = "quotes.raw", file = "missing.jsonl" },
    { send = "quotes.raw", records = [{ a = 1 }] },
    { send = "quotes.raw", records = ["a", "b"], ts_ms = [1] },
    { restart = "driver", ts_ms = 1 },
]
expect = [{ topic = "quotes.copy", records = ["x"], format = "jsn" }]

[[cases]]
name = "one"
steps = [{ advance = "1s" }]
""",
    )
    expected = [
        (5, 'the pipeline has no topic "quotes.row"; did you mean "quotes.raw"?'),
        (6, "needs records — expected one of records, base64, file"),
        (7, "a step has one action — expected one of send, advance, restart, found"),
        (8, "not valid base64"),
        (9, '"file" names a file that does not exist'),
        (10, 'the format of topic "quotes.raw" is unknown'),
        (11, "needs one time per record — expected 2 times, found 1"),
        (12, '"ts_ms" is only allowed with send'),
        (14, 'the pipeline has no format "jsn"; there are: json'),
        (16, "it expects nothing, so it can't fail"),
        (17, "another case has the same name"),
    ]
    assert len(told) == len(expected), "\n".join(told)
    for line, (number, words) in zip(told, expected, strict=True):
        assert line.startswith(f"pipeline.test.toml:{number}:") and words in line, line


def test_faults_of_the_pipeline_are_told_beside_those_of_its_tests(tmp_path: Path) -> None:
    told = faults(tmp_path, "[[cases]]\n", PIPELINE.replace('"passthrough"', '"passthru"'))
    assert any("pipeline.toml:" in line and "passthru" in line for line in told)
    assert any('pipeline.test.toml:1:1: case 1: "name" is missing' in line for line in told)


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        ("", "there are no cases"),
        ("[[case]]\n", 'unknown section "case" — expected cases; did you mean "cases"?'),
        ("cases = [", "invalid TOML"),
        ('[[cases]]\nname = "x"\nclock = "-5m"\nexpect = []\n', "expected a fixed time"),
    ],
)
def test_a_file_without_sound_cases_is_refused(tmp_path: Path, tests: str, words: str) -> None:
    assert words in "\n".join(faults(tmp_path, tests))


def test_tests_are_found_by_pipeline_by_name_and_below_a_folder(tmp_path: Path) -> None:
    file = write(tmp_path, "")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    other = write(deep, "")
    assert find_test_files([file]) == find_test_files([tmp_path / "pipeline.toml"]) == [file]
    assert find_test_files([tmp_path, file]) == [other, file]
    for given, words in ((tmp_path / "x.test.toml", "there is no file"), (deep.parent / "c", "does not exist")):
        with pytest.raises(ConfigError, match=words):
            find_test_files([given])
    (tmp_path / "a" / "none").mkdir()
    with pytest.raises(ConfigError, match=r"no \*\.test\.toml"):
        find_test_files([tmp_path / "a" / "none"])
    other.unlink()
    with pytest.raises(ConfigError, match="has no tests"):
        find_test_files([deep / "pipeline.toml"])
    file.rename(tmp_path / "lonely.test.toml")
    with pytest.raises(ConfigError, match=r"there is no lonely\.toml beside it"):
        read_suites([tmp_path / "lonely.test.toml"])
