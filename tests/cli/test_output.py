from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from gauss.cli.output import CommandOutput, as_json, visible
from gauss.config.secrets import Redactor
from gauss.model.errors import NotFound


def test_json_holds_data_and_events_only(capsys: pytest.CaptureFixture[str]) -> None:
    out = CommandOutput(json=True)
    out.line("for people")
    out.note("for people")
    out.table(["a"], [[1]])
    out.event({"n": 1})
    out.event({"n": 2})
    said, noted = capsys.readouterr()
    assert [json.loads(line) for line in said.splitlines()] == [{"n": 1}, {"n": 2}]
    assert noted == ""


def test_people_get_lines_and_tables_only(capsys: pytest.CaptureFixture[str]) -> None:
    out = CommandOutput()
    out.data({"n": 1})
    out.event({"n": 1})
    out.line("[topic] is not markup")
    out.table(["topic", "records"], [["a[b]", 12345], ["c", 7]])
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "[topic] is not markup"
    assert "a[b]" in said
    assert "12,345" in said
    assert '"n"' not in said


def test_error_is_a_sentence_and_a_hint_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput().error(NotFound('there is no topic "x"', hint="gauss topics lists them"))
    said, noted = capsys.readouterr()
    assert said == ""
    assert noted == 'error: there is no topic "x"\nhint: gauss topics lists them\n'


def test_error_as_json_has_the_one_shape(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput(json=True).error(NotFound("no", hint="look"))
    assert json.loads(capsys.readouterr().out) == {
        "error": {"code": "not_found", "message": "no", "hint": "look", "retryable": False}
    }


def test_redactor_hides_secrets_in_everything_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for for_programs in (False, True):
        out = CommandOutput(json=for_programs)
        out.redactor = Redactor(["hunter2"])
        out.line("pass hunter2")
        out.note("pass hunter2")
        out.table(["x"], [["hunter2"]])
        out.data({"pass": "hunter2"})
        out.event(["hunter2"])
        out.error(NotFound("hunter2", hint="hunter2"))
    said, noted = capsys.readouterr()
    assert "hunter2" not in said + noted


def test_long_cells_are_not_folded_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput().table(["processor", "detail"], [["p", "x" * 500], ["q", "y" * 300]])
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 3
    assert "x" * 500 in said[1]
    assert max(len(line.rstrip()) for line in said) < 520


def test_columns_that_may_be_missing_give_way_and_remarks_go_below(monkeypatch: pytest.MonkeyPatch) -> None:
    out = CommandOutput()
    console = Console(width=30, file=io.StringIO())
    monkeypatch.setattr(out, "console", lambda: console)
    out.table(["name", "plugin", "n"], [["market-feed", "tcp-source", 12345]], spare=["plugin"], remarks=["x" * 20])
    assert console.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "name              n",
        "market-feed  12,345",
        "    " + "x" * 20,
    ]


def test_a_table_in_a_pipe_is_not_padded(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput().table(["a", "b"], [["x" * 300, 1], ["y", 2]], remarks=["z" * 500, ""])
    said = capsys.readouterr().out.splitlines()
    assert said[1].endswith(f"{'x' * 300}  1  {'z' * 500}")
    assert all(line == line.rstrip() for line in said)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 😀 [b]", "plain é 😀 [b]"),
        ("a\x1b[2J\r\x08\x7f\x9b\u202e", r"a\x1b[2J\r\x08\x7f\x9b\u202e"),
        ("lone \ud800", r"lone \ud800"),
        ("two\nlines", r"two\nlines"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert json.loads(as_json(text)) == text and as_json(text).isprintable()
