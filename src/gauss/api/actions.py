"""What can be done with a processor now, and what each action would do: the preview of an operator's decision."""

from __future__ import annotations

from typing import Any

from gauss.clients.engine.positions import topic_of
from gauss.contracts.processor import Role
from gauss.model.errors import NotFound
from gauss.model.units import counted
from gauss.stream.control.run import Running
from gauss.stream.graph import ProcessorNode

Row = dict[str, Any]


def processor_row(running: Running, name: str) -> Row:
    """The row of one processor, with the rates of the last second."""
    found = next((row for row in running.command("processors.ls")["processors"] if row["name"] == name), None)
    if found is None:
        known = ", ".join(running.graph.processors) or "none"
        raise NotFound(f'no processor "{name}"', hint=f"processors of this run: {known}")
    rated = next((row for row in running.sampler.rows["processors"] if row["name"] == name), {})
    return {**found, "rates": rated.get("rates", {})}


def actions(running: Running, name: str, to: str, topic: str) -> list[Row]:
    """The actions on a transform, in the order in which an operator should try them; none on sources and sinks."""
    row, node = processor_row(running, name), running.graph.processors[name]
    if node.role is not Role.TRANSFORM:
        return []
    return [
        _retry(node, row),
        _skip(node, row),
        _drop_state(node),
        _rebuild(running, node),
        *_seeks(running, node, to, topic),
    ]


def _action(action: str, title: str, goes: list[str], stays: list[str], **more: Any) -> Row:
    return {
        "action": action, "title": title, "what": goes[0], "goes": goes, "stays": stays,
        "allowed": True, "refusal": "", "destructive": False, **more,
    }  # fmt: skip


def _failed(row: Row) -> bool:
    return row["state"] in ("failed", "stopped")


def _retry(node: ProcessorNode, row: Row) -> Row:
    many = row["behind"] or 0
    waiting = "1 record waits" if many == 1 else f"{counted(many, 'record')} wait"
    return _action(
        "retry",
        f"Retry {node.name}?",
        [f"It starts again where it stopped: {waiting} for it."],
        ["Nothing is read twice, and nothing is skipped."],
        **(
            {} if _failed(row) else {"allowed": False, "refusal": f"it is {row['state']}, so there is nothing to retry"}
        ),
    )


def _skip(node: ProcessorNode, row: Row) -> Row:
    refusal = ""
    if node.stateful:
        refusal = "it keeps a state, which would be wrong without the records that are skipped"
    elif not _failed(row):
        refusal = f"it is {row['state']}: only records at which it fails can be skipped"
    return _action(
        "skip",
        f"Skip the records at which {node.name} fails?",
        ["The batch at which it fails is not processed; it goes on behind it."],
        ["The skipped records become dead letters, and can be replayed."],
        allowed=not refusal,
        refusal=refusal,
    )


def _drop_state(node: ProcessorNode) -> Row:
    stateless = node.stateful is False
    return _action(
        "drop-state",
        f"Continue {node.name} without its state?",
        ["Open windows, joins and keys that it has seen are forgotten: their results are missing or may repeat."],
        [f"Records in {', '.join(node.targets) or 'its targets'} stay, and its position stays."],
        allowed=not stateless,
        refusal="it has no state" if stateless else "",
        destructive=True,
    )


def _rebuild(running: Running, node: ProcessorNode) -> Row:
    rows = {row["name"]: row for row in running.sampler.rows["topics"]}
    goes = [f"{counted(rows[target]['records'], 'record')} of {target}" for target in node.targets if target in rows]
    kept = sum(rows[reading.topic]["records"] for reading in node.sources if reading.topic in rows)
    others = {
        writer.name for target in node.targets for writer in running.graph.writers(target) if writer.name != node.name
    }
    refusal = f"{', '.join(sorted(others))} also writes its target, whose records would be deleted" if others else ""
    if shared := running.graph.shared(node.targets):
        refusal = f"{', '.join(shared)} is in an outside system, for others too, and is not emptied"
    return _action(
        "rebuild",
        f"Rebuild what {node.name} has written?",
        goes or ["What it has written is deleted."],
        [f"{counted(kept, 'record')} that are still in its source are read again from the first one."],
        allowed=not refusal,
        refusal=refusal,
        destructive=True,
    )


def _seeks(running: Running, node: ProcessorNode, to: str, topic: str) -> list[Row]:
    readers: list[Row] = [
        row
        for reading in node.sources
        for row in running.command("readers.ls", topic=reading.topic)["readers"]
        if row["name"] == node.name
    ]
    chosen = [row for row in readers if topic in ("", row["topic"])][:1]
    return [
        _seek_partitions(node, row, [each for each in readers if topic_of(each["topic"]) == topic_of(row["topic"])], to)
        if running.graph.topics[topic_of(row["topic"])].shared
        else _seek(running, node, row, to)
        for row in chosen
    ]


def _seek(running: Running, node: ProcessorNode, reader: Row, to: str) -> Row:
    topic = running.command("topic", name=reader["topic"])
    place = _place(to, topic)
    move = None if place is None else place - reader["position"]
    if place is None:
        what = f'"{to}" is no place: write earliest, end, an offset, or -N for N records before the end'
    elif not topic["floor"] <= place <= topic["end"]:
        what = f"{reader['topic']} holds offsets {topic['floor']:,} to {topic['end']:,}"
    elif move:
        records = counted(abs(move), "record")
        what = f"{records} are skipped: {node.name} never reads them." if move > 0 else (
            f"{records} are read again: what {node.name} writes of them comes twice."
        )  # fmt: skip
    else:
        what = "It is there already; nothing changes."
    allowed = place is not None and topic["floor"] <= place <= topic["end"]
    return _action(
        "seek",
        f"Move {node.name} on {reader['topic']} from {reader['position']:,} to {place if place is not None else to}?",
        [what],
        ["Other readers of the topic, and its records, stay as they are."],
        allowed=allowed,
        refusal="" if allowed else what,
        topic=reader["topic"],
        reader=reader["name"],
    )


def _seek_partitions(node: ProcessorNode, reader: Row, readers: list[Row], to: str) -> Row:
    """The seek in a topic of an outside system, which has a position in each partition. A reader under the name of the
    topic stands for all of them, though its own position is that of partition 0."""
    name, of_all = reader["topic"], reader["topic"] == topic_of(reader["topic"]) and len(readers) > 1
    moved = readers if of_all else [reader]
    again = f"what {node.name} writes of them comes twice."
    refusal = ""
    if to == "earliest":
        what = f"All records that {name} still has are read again: {again}"
    elif to == "end":
        what = f"{counted(sum(row['behind'] for row in moved), 'record')} are skipped: {node.name} never reads them."
    elif of_all:
        one = readers[-1]["topic"]
        what = refusal = f"{name} has {len(readers)} partitions: write earliest or end, or name one, such as {one}"
    else:
        end = reader["position"] + reader["behind"]
        place = _place(to, {"floor": 0, "end": end})
        move = 0 if place is None else place - reader["position"]
        if place is None or place > end:
            what = refusal = f'"{to[:40]}" is no place: write earliest, end, an offset up to {end:,}, or -N'
        elif move > 0:
            what = f"Records up to offset {place:,} are skipped: {node.name} never reads them."
        else:
            what = f"Records from offset {place:,} on are read again: {again}" if move else (
                "It is there already; nothing changes."
            )  # fmt: skip
    where = f"all {len(readers)} partitions of {name}" if of_all else f"{name} from {reader['position']:,}"
    return _action(
        "seek",
        f"Move {node.name} on {where} to {to}?",
        [what],
        ["Other readers of the topic, and its records, stay as they are."],
        allowed=not refusal,
        refusal=refusal,
        topic=name,
        reader=reader["name"],
    )


def _place(to: str, topic: Row) -> int | None:
    """The offset of a place in a topic."""
    if to in ("earliest", "end"):
        return int(topic["floor"] if to == "earliest" else topic["end"])
    try:
        number = int(to)
    except ValueError:
        return None
    return number if number >= 0 else max(topic["floor"], topic["end"] + number)
