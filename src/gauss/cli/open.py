from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption, RunClient
from gauss.cli.output import CommandOutput, JsonOption


def command(
    *,
    viewer: Annotated[bool, typer.Option("--viewer", help="A link that allows no changes, to give away.")] = False,
    print_: Annotated[bool, typer.Option("--print", help="Print the link only.")] = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Open the pages of a run in the browser, signed in. The link is valid once, for 15 minutes.

    Examples: gauss open · gauss open --viewer --print
    """
    output = CommandOutput(json=json)
    found = RunClient(data_dir).post("session", "codes", body={"role": "viewer" if viewer else "operator"})
    output.data(found)
    output.line(found["url"])
    if not print_ and not json:
        webbrowser.open(found["url"])
