"""`gauss check` opens both sides of a sync."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.embedded import ensure
from helpers.run import free_port
from helpers.sync_connectors import CONNECTORS

Gauss = Callable[..., "subprocess.CompletedProcess[str]"]
CONFIG = """
[[syncs]]
name = "people"
source = {{ {source} }}
destination = {{ {destination} }}
streams = [{{ name = "a" }}]
"""
GOOD = 'connector = "sample:Numbers", rows = 1, folder = "."'
LINES = 'connector = "sample:Lines", folder = "."'


@pytest.fixture
def check(gauss: Gauss, tmp_path: Path) -> Callable[..., tuple[int, list[dict[str, Any]]]]:
    (tmp_path / "sample.py").write_text(CONNECTORS)

    def run(*args: str, source: str = GOOD, destination: str = LINES) -> tuple[int, list[dict[str, Any]]]:
        (tmp_path / "gauss.toml").write_text(CONFIG.format(source=source, destination=destination))
        done = gauss("check", "--json", *args)
        phases = json.loads(done.stdout)["phases"]
        return done.returncode, [phase for phase in phases if phase["name"] == "connectors"]

    return run


def test_both_sides_are_opened_unless_offline(check: Any) -> None:
    code, [source, destination] = check()
    assert code == 0 and (source["mark"], destination["mark"]) == ("ok", "ok")
    assert 'sync "people": source sample:Numbers is accepted' in source["detail"]
    assert check("--offline") == (0, [])


def test_a_side_that_refuses_is_an_error_and_the_other_is_checked(check: Any) -> None:
    code, [source, destination] = check(source=f"{GOOD}, refuses = true")
    assert code == 1 and source["mark"] == "fail" and "the password is wrong" in source["detail"]
    assert destination["mark"] == "ok"


def test_a_server_that_is_away_is_a_warning(check: Any) -> None:
    dsn = f'connector = "postgres", dsn = "postgresql://me:hidden@127.0.0.1:{free_port()}/x"'
    code, [_, destination] = check(destination=dsn)
    assert code == 0 and destination["mark"] == "warn" and "can't be reached now" in destination["detail"]
    assert "hidden" not in json.dumps(destination)


def test_a_wrong_password_is_an_error_and_a_right_one_is_not(
    check: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with ensure("postgres", tmp_path_factory.mktemp("postgres")) as server:
        url = server.endpoint.url
        good, [_, accepted] = check(destination=f'connector = "postgres", dsn = "{url}"')
        bad, [_, refused] = check(destination=f'connector = "postgres", dsn = "{url.replace("@", "x@")}"')
    assert good == 0 and accepted["mark"] == "ok", accepted
    assert bad == 1 and refused["mark"] == "fail", refused


def test_an_embedded_server_is_not_started(check: Any, tmp_path: Path) -> None:
    code, [_, destination] = check(destination='connector = "postgres"')
    assert code == 0 and destination["mark"] == "ok" and "embedded postgres" in destination["detail"]
    assert not (tmp_path / ".gauss" / "postgres").exists()


def test_a_cron_expression_that_never_comes_is_an_error_with_its_line(gauss: Gauss, check: Any, tmp_path: Path) -> None:
    check()
    (tmp_path / "gauss.toml").write_text((tmp_path / "gauss.toml").read_text() + 'every = "61 * * * *"\n')
    done = gauss("check", "--offline")
    assert done.returncode == 1 and "gauss.toml:7" in done.stdout and "minute: expected 0 to 59" in done.stdout
