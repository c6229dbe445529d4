"""The page of examples lists every example folder with the first sentence of its README."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "examples.md").read_text()


def test_every_folder_of_examples_is_listed_once() -> None:
    folders = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir() and path.name != "__pycache__"}
    listed = [line.partition("]")[0].removeprefix("| [") for line in PAGE.splitlines() if line.startswith("| [")]
    assert sorted(listed) == sorted(folders)


def test_an_example_is_listed_with_the_opening_of_its_readme() -> None:
    for readme in (ROOT / "examples").glob("*/README.md"):
        opening = " ".join(readme.read_text().split("\n\n")[1].split())
        assert f"| [{readme.parent.name}](../examples/{readme.parent.name}/README.md) | {opening} |" in PAGE


def test_links_of_pages_and_readmes_lead_to_files() -> None:
    import re

    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert broken == []
