"""Every file and folder that the guides name exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASES = (ROOT, ROOT / "src/gauss")
GUIDES = ("ARCHITECTURE.md", "CONTRIBUTING.md")
CODE = re.compile(r"`([^`\n]+)`|\]\(([^)\s]+)\)")
GROUP = re.compile(r"([\w/.-]*)\{([^{}]*)\}([\w/.-]*)")
ENDINGS = (".py", ".md", ".toml", ".txt")
MADE = (".venv/", ".cache/", "gauss/share")
"""Paths that are created by setup, runs and wheels."""


def words(text: str) -> Iterator[str]:
    """The words of code spans and links, with `a/{b,c}.py` as `a/b.py a/c.py`. Code blocks count as code spans."""
    spans = re.sub(r"```\w*\n(.*?)```", lambda block: "`" + block[1].replace("\n", "`\n`") + "`", text, flags=re.DOTALL)
    for span in CODE.finditer(spans):
        code = GROUP.sub(lambda g: " ".join(g[1] + each.strip() + g[3] for each in g[2].split(",")), span[1] or span[2])
        yield from re.split(r"[\s,]+", code)


def missing(text: str, bases: tuple[Path, ...] = BASES) -> list[str]:
    """Paths in a guide that do not exist. A path is relative to a base or to the folder of the path before it."""
    found: list[str] = []
    folder: Path | None = None
    for word in words(text):
        place = next((base / word for base in bases if (base / word).exists()), None)
        if not (word.endswith(ENDINGS) or re.fullmatch(r"[\w-]+(/[\w.-]*)+", word)):
            folder = place if place and place.is_dir() and re.fullmatch(r"\w+", word) else folder
        elif place is not None:
            folder = place if place.is_dir() else place.parent
        elif not word.startswith(MADE) and not (folder and (folder / word).exists()):
            found.append(word)
    return found


@pytest.mark.parametrize("guide", GUIDES)
def test_guide_names_only_paths_that_exist(guide: str) -> None:
    absent = missing((ROOT / guide).read_text())
    assert not absent, f"{guide} names paths that neither the project nor src/gauss has: {', '.join(absent)}"


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("`stream/engine` has `runtime.py` and `nothing.py`", ["nothing.py"]),
        ("`model/paths.py`, then `errors.py`, then `config/check.py` and `paths.py`", ["paths.py"]),
        ("`model/{paths,errors,lost}.py`", ["model/lost.py"]),
        ("[time](docs/time.md), [lost](docs/lost.md)", ["docs/lost.md"]),
        ("```\npytest tests/docs/test_lost.py  # one\n```", ["tests/docs/test_lost.py"]),
        ("plain/words, `/metrics`, `{inc, off}`, `gauss.formats`", []),
    ],
)
def test_missing_paths_are_found(text: str, absent: list[str]) -> None:
    assert missing(text) == absent
