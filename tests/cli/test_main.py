from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gauss.cli import main as cli
from gauss.model.errors import ConfigError, GaussError, NotFound, Unavailable


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Replaces `gauss top` with a command that raises."""

    def replace(error: BaseException) -> None:
        def command(json: bool = False) -> None:
            del json
            raise error

        module = types.ModuleType("gauss.cli.top")
        module.command = command  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "gauss.cli.top", module)

    return replace


Failing = Callable[[BaseException], None]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("no"), 1),
        (NotFound("no"), 3),
        (GaussError("no"), 3),
        (Unavailable("no"), 4),
        (RuntimeError("no"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_failure_has_its_exit_code_and_no_trace(
    failing: Failing, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    failing(error)
    with pytest.raises(SystemExit) as ended:
        cli.main(["top"])
    assert ended.value.code == code
    assert "Traceback" not in capsys.readouterr().err


def test_failure_as_json_is_the_error_shape(failing: Failing, capsys: pytest.CaptureFixture[str]) -> None:
    failing(Unavailable("no engine runs here", hint="gauss run"))
    with pytest.raises(SystemExit):
        cli.main(["top", "--json"])
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "unavailable"


def test_bug_shows_its_trace_when_asked(failing: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(RuntimeError("oops"))
    monkeypatch.setenv("GAUSS_DEBUG", "1")
    with pytest.raises(RuntimeError, match="oops"):
        cli.main(["top"])


def leaves(command: Any) -> Iterator[Any]:
    """All commands below a group."""
    inner = getattr(command, "commands", {}).values()
    yield from (leaf for each in inner for leaf in leaves(each)) if inner else [command]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_takes_json_and_explains_itself(name: str) -> None:
    command = cli.load_command(name)
    for leaf in leaves(command):
        assert leaf.help or command.help, leaf.name
        assert any("--json" in parameter.opts for parameter in leaf.params), leaf.name
