from __future__ import annotations

from pathlib import Path

import pytest

from gauss.model.errors import ConfigError
from gauss.process.java import find_java


def test_java_home_is_used_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java("Spark") == str(java)


def test_missing_java_is_reported_with_the_searched_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=rf"Kafka needs Java 17 or later: no `java` in JAVA_HOME \({tmp_path}\)"):
        find_java("Kafka")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="Spark needs Java 17 or later: no `java` in PATH"):
        find_java("Spark")
