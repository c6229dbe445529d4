from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gauss.config.positions import KeyPath
from gauss.config.secrets import Redactor, remember_written, substitute

if TYPE_CHECKING:
    from .conftest import Judge

SECRET = "hunter2-é\"'x"


def fill(value: Any, base_dir: Path = Path()) -> tuple[Any, Redactor, list[tuple[KeyPath, str, str]]]:
    redactor, problems = Redactor(), []
    filled = substitute(value, base_dir, redactor, lambda *problem: problems.append(problem))
    remember_written(filled, redactor)
    return filled, redactor, problems


def test_environment_variable_is_filled_in_inside_a_longer_string(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "db1")
    filled, _, problems = fill({"url": ["tcp://${HOST}:5432/${HOST}"]})
    assert filled == {"url": ["tcp://db1:5432/db1"]}
    assert problems == []


def test_file_is_filled_in_without_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "token.txt").write_text("abc def\n")
    assert fill("${file:token.txt}", tmp_path)[0] == "abc def"


def test_doubled_dollar_writes_a_plain_reference() -> None:
    filled, redactor, problems = fill("cost $${HOME} and $5 and ${")
    assert filled.startswith("cost ${HOME} and $5 and ")
    assert redactor.secrets == frozenset()
    assert len(problems) == 1  # without the closing brace


def test_missing_variable_is_named_at_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    _, _, problems = fill({"a": {"b": "${NOT_THERE}"}})
    assert problems[0][0] == ("a", "b")
    assert "NOT_THERE is not set" in problems[0][1]


def test_variable_that_is_unset_or_empty_has_the_default_which_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("BROKER", "kafka1:9092")
    filled, redactor, problems = fill(["${NOT_THERE:-local[2]}", "${EMPTY:-}", "a ${BROKER:-127.0.0.1:9092}"])
    assert filled == ["local[2]", "", "a kafka1:9092"]
    assert redactor.secrets == {"kafka1:9092"} and problems == []


@pytest.mark.parametrize("reference", ["${a b:-c}", "${NOT_THERE:-c"])
def test_default_of_a_reference_that_is_no_name_is_refused(reference: str) -> None:
    assert len(fill(reference)[2]) == 1


def test_missing_file_is_named(tmp_path: Path) -> None:
    _, _, problems = fill("${file:gone.txt}", tmp_path)
    assert "gone.txt" in problems[0][1]


def test_reference_that_is_no_name_is_refused() -> None:
    _, _, problems = fill("${a b}")
    assert "neither an environment variable nor a file" in problems[0][1]


@pytest.mark.parametrize("form", [SECRET, repr(SECRET), json.dumps(SECRET), f"<{SECRET}>"])
def test_redactor_hides_every_quoted_form(form: str) -> None:
    hidden = Redactor([SECRET]).redact(f"failed with {form}, again {form}")
    assert "hunter2" not in hidden
    assert hidden.count("***") == 2


def test_redactor_hides_a_short_secret_only_where_it_stands_alone() -> None:
    assert Redactor(["in"]).redact("in the engine, of an input: 'in'") == "*** the engine, of an input: '***'"


def test_redactor_prefers_the_longer_of_two_secrets() -> None:
    assert Redactor(["pass", "password"]).redact("password pass") == "*** ***"


def test_redactor_leaves_text_without_secrets_alone() -> None:
    assert Redactor([""]).redact("nothing to hide") == "nothing to hide"


def test_no_fault_shows_a_value_that_came_from_outside(
    judge: Judge, sound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2-value")
    for broken in (
        sound.replace("port = 9100", 'port = "${SECRET}"'),
        sound.replace('read = "offset"', 'read = "${SECRET}"'),
        sound.replace('storage = "memory"', 'storage = "${SECRET}"'),
        sound.replace('framing = "newline"', 'framing = "${SECRET}"'),
        sound.replace('topic = "quotes"', 'topic = "x-${SECRET}-y"'),
        sound.replace('name = "feed"', 'name = "${SECRET}!"'),
    ):
        checked = judge(broken)
        assert checked.errors
        assert "hunter2" not in json.dumps([fault.to_dict() for fault in checked.faults])


def test_missing_variable_is_the_only_fault_of_its_key(judge: Judge, sound: str) -> None:
    name = "GAUSS_TEST_NO_SUCH_PORT"
    checked = judge(sound.replace("port = 9100", f'port = "${{{name}}}"'))
    assert [fault.message for fault in checked.errors] == [
        "the environment variable GAUSS_TEST_NO_SUCH_PORT is not set"
    ]
    assert checked.errors[0].line == 9


def test_number_from_the_environment_is_taken_as_a_number(
    judge: Judge, sound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEED_PORT", "9155")
    checked = judge(sound.replace("port = 9100", 'port = "${FEED_PORT}"'))
    assert checked.errors == []


def test_redact_data_hides_texts_and_long_numbers_and_keeps_types() -> None:
    redactor = Redactor(["hunter2", "9100", "1"])
    said = {"port": 9100, "line": 1, "hosts": ["a-hunter2-b"], "hunter2": None}
    assert redactor.redact_data(said) == {"port": "***", "line": 1, "hosts": ["a-***-b"], "***": None}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("password", "hunter2"),
        ("dsn", "host=h password=hunter2"),
        ("token", "hunter2"),
        ("spark.hadoop.fs.s3a.secret.key", "hunter2"),
        ("spark.hadoop.fs.s3a.access.key", "hunter2"),
        ("spark.ssl.keyPassword", "hunter2"),
        ("Authorization", "Bearer hunter2"),
        ("sasl_jaas_config", 'username="u" password="hunter2"'),
    ],
)
def test_a_secret_that_is_written_out_is_known_by_its_key(path: str, value: str) -> None:
    _, redactor, _ = fill({"config": {path: value}})
    assert redactor.redact(f"at {value}.") == "at ***."
    assert redactor.holds(("config", path))


@pytest.mark.parametrize(
    "url", ["https://user:hunter2@registry.example/x", "amqp://:hunter2@h", "postgresql://u:hunt#er2@h/d"]
)
def test_the_password_of_an_url_is_hidden_wherever_the_url_stands(url: str) -> None:
    _, redactor, _ = fill({"config": {"registry": url}})
    secret = url.rpartition("@")[0].rpartition(":")[2]
    assert secret not in redactor.redact(f"{url}: can't log in with {secret}")


def test_what_only_sounds_like_a_secret_is_not_hidden() -> None:
    _, redactor, _ = fill({"token_file": "a/token", "key": "symbol", "password": "", "url": "http://h:80/@x"})
    assert redactor.secrets == frozenset()


@pytest.mark.parametrize("value", ['"hunt#er2"', "99999999999999999999", "[12345678]", "{ a = 12345678 }", "true"])
def test_a_secret_of_the_wrong_type_is_not_shown_by_a_fault(judge: Judge, value: str) -> None:
    checked = judge(
        '[[topics]]\nname = "t"\nstorage = "clickhouse"\n'
        f'storage_config = {{ host = "h", table = "t", password = {value}, nonsense = 1 }}\n'
    )
    said = "\n".join(map(str, checked.faults))
    assert said and "12345678" not in said and "99999" not in said and "er2" not in said and "found true" not in said
