"""`gauss docs`: prints the documentation that is installed with Gauss."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.shared_files import folder, summary
from gauss.model.errors import NotFound


def command(
    page: Annotated[
        str, typer.Argument(help="A page, such as testing or reference/formats. Default: list the pages.")
    ] = "",
    json: JsonOption = False,
) -> None:
    """Print a page of the documentation, or list the pages.

    Examples: gauss docs · gauss docs testing · gauss docs reference/formats
    """
    output = CommandOutput(json=json)
    root = folder("docs")
    pages = {str(file.relative_to(root).with_suffix("")): file for file in sorted(root.rglob("*.md"))}
    if not page:
        titles = {name: summary(file)[0] for name, file in pages.items()}
        output.data({"folder": str(root), "pages": titles})
        output.table(["page", "title"], list(titles.items()))
        return
    found = pages.get(page.removesuffix(".md").removeprefix("docs/"))
    if found is None:
        raise NotFound(f'no page "{page}"', hint=f"pages: {', '.join(pages)}")
    text = found.read_text(encoding="utf-8")
    output.data({"page": page, "file": str(found), "text": text})
    if not json:
        sys.stdout.write(text)
