"""Settings of the kit: from a file and from the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gauss.config.secrets import Redactor
from gauss.connect.conformance.settings import read_settings
from gauss.model.errors import ConfigError

PAGE = (Path(__file__).parents[3] / "docs" / "connectors.md").read_text()


def test_settings_in_the_docs_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [text] = re.findall(r"```\n(streams = .*?)```", PAGE, re.DOTALL)
    (tmp_path / "kit.toml").write_text(text)
    monkeypatch.setenv("SOURCE_DSN", "postgresql://u:secret1@h/d")
    monkeypatch.setenv("TARGET_DSN", "postgresql://u:secret2@h/d")
    redactor = Redactor()
    found = read_settings(tmp_path / "kit.toml", [], redactor)
    assert (found.streams, found.write, found.kills) == (["public.people"], ["append", "upsert"], 5)
    assert found.source == {"dsn": "postgresql://u:secret1@h/d"}
    assert "secret1" not in redactor.redact("at postgresql://u:secret1@h/d")


def test_set_option_gives_typed_values_to_both_roles() -> None:
    given = ["rows=10", "name=some text", "deep.flag=true", 'list=["a"]']
    found = read_settings(None, given, Redactor())
    assert found.source == found.destination
    assert found.source == {"rows": 10, "name": "some text", "deep": {"flag": True}, "list": ["a"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stream = []", "stream: Extra inputs"),
        ("kills = -1", "kills: Input should be greater"),
        ('write = ["merge"]', "write.0: Input should be 'append'"),
        ('[source]\ndsn = "${NOT_SET_ANYWHERE}"', "source.dsn: the environment variable NOT_SET_ANYWHERE is not set"),
        ("kills", "invalid TOML"),
    ],
    ids=["unknown key", "number", "mode", "variable", "syntax"],
)
def test_invalid_settings_are_refused_with_their_position(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "kit.toml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(words)):
        read_settings(tmp_path / "kit.toml", [], Redactor())
