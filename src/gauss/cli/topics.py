from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption, RunClient
from gauss.cli.output import CommandOutput, JsonOption
from gauss.contracts.storage import TopicKind
from gauss.model.errors import ConfigError
from gauss.model.units import counted, human_bytes


def command(
    name: Annotated[
        str | None, typer.Argument(help="Show one topic with its readers.", autocompletion=complete.topics)
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Include hidden topics (dead letters, retries).")] = False,
    backup: Annotated[
        Path | None,
        typer.Option(help="Copy a file topic into a new folder, consistently and without stopping the run."),
    ] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """List topics with their storage, size and readers.

    Examples: gauss topics · gauss topics quotes.raw · gauss topics --json | jq '.topics[].end' ·
    gauss topics quotes.archive --backup /backup/quotes
    """
    output, client = CommandOutput(json=json), RunClient(data_dir)
    if backup is not None:
        if name is None:
            raise ConfigError("--backup needs the name of a topic", hint=f"gauss topics TOPIC --backup {backup}")
        made = RunClient(data_dir, timeout=None).post("topics", name, "backup", body={"folder": str(backup.resolve())})
        output.data(made)
        output.line(f"{human_bytes(made['bytes'])} in {counted(made['files'], 'file')} copied to {made['folder']}")
        return
    if name is not None:
        topic = client.get("topics", name)
        output.data(topic)
        if not json:
            show_one(output, topic)
        return
    found = client.get("topics")
    if not all:
        found["topics"] = [topic for topic in found["topics"] if not topic["hidden"]]
    output.data(found)
    output.table(
        ["topic", "storage", "records", "bytes", "fill", "appended", "dropped", "lost", "damaged"],
        [
            [
                topic["name"],
                storage(topic),
                topic["records"],
                human_bytes(topic["bytes"]),
                fill(topic),
                topic["appended"],
                topic["dropped"] + topic["overwritten"],
                topic["lost"],
                topic["damaged"],
            ]
            for topic in found["topics"]
        ],
        spare=["fill", "lost"],
    )
    if inboxes := [topic["name"] for topic in found["topics"] if storage(topic).endswith(" inbox")]:
        output.note(
            f"an inbox counts records not yet written to the table; print its rows with gauss query {inboxes[0]}"
        )


def storage(topic: dict[str, Any]) -> str:
    """The storage. Of a table elsewhere the engine counts the records that are yet to be inserted, not the rows."""
    name: str = topic["storage"]
    return f"{name} inbox" if topic["kind"] == TopicKind.STORED_TABLE else name


def fill(topic: dict[str, Any]) -> str:
    return "–" if topic.get("fill") is None else f"{100 * topic['fill']:.0f} %"


def show_one(output: CommandOutput, topic: dict[str, Any]) -> None:
    for key, value in topic.items():
        if key != "readers" and value not in (None, ""):
            text = ", ".join(value) if isinstance(value, list) else f"{value:,}" if _counted(key, value) else value
            output.line(f"{key:>16}  {text}")
    if topic.get("readers"):
        output.line()
        show_readers(output, topic["readers"])


def _counted(key: str, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and key not in ("inc", "last_ts_ms")


def show_readers(output: CommandOutput, readers: list[dict[str, Any]]) -> None:
    output.table(
        ["reader", "topic", "position", "behind", "by", "missed", "lost", "idle"],
        [
            [
                reader["name"],
                reader["topic"],
                reader["position"],
                reader["behind"],
                seconds(reader.get("behind_ms")),
                reader["missed"],
                reader["lost_on_restart"],
                seconds(1000 * reader["idle_s"] if reader.get("idle_s") is not None else None),
            ]
            for reader in readers
        ],
        spare=["by", "idle"],
    )


def late(row: dict[str, Any]) -> str:
    """The number of late records of a processor."""
    return f"{row['late']:,} late" if row.get("late") else ""


def seconds(milliseconds: float | None) -> str:
    """Formats a duration: 0.2 s, 3 min, 5.1 h, 56 days."""
    if milliseconds is None:
        return "–"
    for unit, size, digits, below in (("s", 1_000, 1, 100), ("min", 60_000, 0, 100), ("h", 3_600_000, 1, 48)):
        if milliseconds < below * size:
            return f"{milliseconds / size:.{digits}f} {unit}"
    return f"{milliseconds / 86_400_000:.0f} days"
