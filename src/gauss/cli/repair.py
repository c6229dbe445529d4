from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.verify import DirectoryArgument, show, verified
from gauss.model.errors import ConfigError

if TYPE_CHECKING:
    from gauss.contracts.offline import Finding


def command(
    directory: DirectoryArgument = Path(".gauss"),
    choose: Annotated[
        str,
        typer.Option(help="The repair to apply to every finding that offers it: keep, cut, drop, restore or aside."),
    ] = "",
    only: Annotated[int, typer.Option(help="Repair only the finding with this number.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    json: JsonOption = False,
) -> None:
    """Show damage in a data directory with the possible repairs, and apply one after confirmation.

    Data that a repair removes from the journal or a topic is moved aside in the same directory, never deleted.

    Examples: gauss repair · gauss repair .gauss --choose keep --yes · gauss repair .gauss --only 2 --choose drop
    """
    from gauss.stream.verify import repair

    output = CommandOutput(json=json)
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
            outcome = repair(directory, finding, choice)
            output.line(f"   done: {outcome}")
            done.append({"finding": number, "choice": choice, "done": outcome})
    output.data({**found.to_dict(), "repaired": done})
    if len(done) < len(found.findings):
        if not done:
            output.line("nothing was changed; apply a repair with --choose NAME --yes")
        raise typer.Exit(1)


def _show_choices(output: CommandOutput, number: int, finding: Finding) -> None:
    output.line()
    output.line(f"{number}. {finding.path}: {finding.what}", style="bold")
    for choice in finding.choices:
        output.line(f"   {choice.name:<8} {choice.does}")


def _chosen(finding: Finding, choose: str, *, yes: bool) -> str:
    """The repair to apply to a finding; empty for none."""
    names = [choice.name for choice in finding.choices]
    if choose and choose not in {"keep", "cut", "drop", "restore", "aside"}:
        raise ConfigError(
            f'expected keep, cut, drop, restore or aside, found "{choose}"', hint="gauss repair lists the choices"
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
