"""The installed documentation and examples: in the wheel beside the package, in a checkout at its root."""

from __future__ import annotations

from pathlib import Path

import gauss

PACKAGE = Path(gauss.__file__).parent


def folder(name: str) -> Path:
    """The folder `docs` or `examples`."""
    installed = PACKAGE / "share" / name
    return installed if installed.is_dir() else PACKAGE.parents[1] / name


def summary(page: Path) -> tuple[str, str]:
    """The title and first paragraph of a page."""
    title, _, text = page.read_text(encoding="utf-8").partition("# ")[2].partition("\n")
    return title.strip(), " ".join(text.strip().partition("\n\n")[0].split())
