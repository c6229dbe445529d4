from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauss.cli.output import JsonOption, Output
from gauss.cli.verify import DirectoryArgument, show, verified
from gauss.model.errors import ConfigError

if TYPE_CHECKING:
    from gauss.contracts.offline import Finding


def command(
    directory: DirectoryArgument = Path(".gauss"),
    choose: Annotated[
        str, typer.Option(help="The choice to take, for every finding that has it: keep, cut, drop, restore, aside.")
    ] = "",
    only: Annotated[int, typer.Option(help="Mend one finding alone, by its number.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what is damaged in a data directory and the choices for each finding; do one with a yes.

    What a repair takes out of the journal or a topic is moved aside in the same directory, never deleted.

    Examples: gauss repair · gauss repair .gauss --choose keep --yes · gauss repair .gauss --only 2 --choose drop
    """
    from gauss.stream.verify import repair

    output = Output(json=json)
    found = verified(output, directory)
    show(output, found)
    done: list[dict[str, object]] = []
    for number, finding in enumerate(found.findings, 1):
        if only and number != only:
            continue
        if not json:
            _show_choices(output, number, finding)
        choice = _chosen(finding, choose, yes=yes)
        if choice:
            told = repair(directory, finding, choice)
            output.line(f"   done: {told}")
            done.append({"finding": number, "choice": choice, "done": told})
    output.data({**found.to_dict(), "repaired": done})
    if len(done) < len(found.findings):
        if not done:
            output.line("nothing was changed; take a choice with --choose NAME --yes")
        raise typer.Exit(1)


def _show_choices(output: Output, number: int, finding: Finding) -> None:
    output.line()
    output.line(f"{number}. {finding.path}: {finding.what}", style="bold")
    for choice in finding.choices:
        output.line(f"   {choice.name:<8} {choice.does}")


def _chosen(finding: Finding, choose: str, *, yes: bool) -> str:
    """The choice to take for a finding; empty: none."""
    names = [choice.name for choice in finding.choices]
    if choose and choose not in {"keep", "cut", "drop", "restore", "aside"}:
        raise ConfigError(
            f'expected a choice of keep, cut, drop, restore, aside, found "{choose}"', hint="gauss repair lists them"
        )
    if choose and choose not in names:
        return ""
    if yes:
        return choose
    if not sys.stdin.isatty():
        return ""
    picked = choose or typer.prompt(f"   {', '.join(names)}, or nothing", default="", show_default=False)
    if picked not in names:
        return ""
    return picked if typer.confirm(f"   do {picked}?", default=False) else ""
