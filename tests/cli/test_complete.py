"""Shell completion, called as bash calls it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Gauss

Offered = Callable[[str], list[str]]


@pytest.fixture
def offered(gauss: Gauss, tmp_path: Path) -> Offered:
    gauss("new", "gauss.toml")
    (tmp_path / "other").mkdir()
    gauss("new", "other/other.toml")
    other = tmp_path / "other" / "other.toml"
    other.write_text(other.read_text().replace("quotes.", "trades."))

    def ask(line: str) -> list[str]:
        count = len(line.split(" ")) - 1
        done = gauss(_GAUSS_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(count))
        assert done.stderr == ""
        return done.stdout.split()

    return ask


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gauss che", ["check"]),
        ("gauss check g", ["gauss.toml"]),
        ("gauss run oth", ["other/"]),
        ("gauss graph other/", ["other/other.toml"]),
        ("gauss tap quotes.", ["quotes.raw", "quotes.high"]),
        ("gauss query quotes.h", ["quotes.high"]),
        ("gauss scan q", ["quotes.raw", "quotes.high"]),
        ("gauss send q", ["quotes.raw", "quotes.high"]),
        ("gauss topics quotes.r", ["quotes.raw"]),
        ("gauss readers seek quotes.r", ["quotes.raw"]),
        ("gauss processors retry h", ["high"]),
        ("gauss dlq show --processor f", ["feed"]),
        ("gauss explain gauss.toml ", ["feed", "high", "out"]),
        ("gauss explain other/other.toml o", ["out"]),
        ("gauss schema other/other.toml t", ["trades.raw", "trades.high"]),
    ],
)
def test_names_of_the_pipeline_are_offered(offered: Offered, line: str, words: list[str]) -> None:
    assert offered(line) == words


def test_nothing_is_offered_and_nothing_said_where_there_is_no_pipeline(gauss: Gauss, tmp_path: Path) -> None:
    (tmp_path / "gauss.toml").write_bytes(b"\xff no TOML")
    for line in ("gauss tap q", "gauss processors retry x", "gauss explain missing.toml x", "gauss check /nowhere/x"):
        words = len(line.split()) - 1
        done = gauss(_GAUSS_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(words))
        assert (done.stdout.strip(), done.stderr) == ("", ""), line
