"""Rules for a topic that stores the state of a processor."""

from __future__ import annotations

from gauss.config.entries import Entries, Processor, Topic
from gauss.config.topics import state_of, targets_of

KEY = "window_key"
AT = ("config", "state_topic")


def state_fits(processor: Processor, entries: Entries, topics: dict[str, Topic]) -> None:
    """Reports an unsuitable state topic. Unknown topics are reported elsewhere."""
    name = state_of(processor.spec, processor.config)
    topic = topics.get(name) if name is not None else None
    if topic is None:
        return
    target = processor.definition.target
    if target is not None and target.topic == name:
        processor.scope.add(
            AT,
            f'"state_topic" is the target: "{name}" would mix state rows with results',
            hint="give it its own topic",
        )
        return
    _kind_fits(processor, topic, entries)
    for other in entries.processors:
        if other is not processor and name in [
            each for _, each in targets_of(other.definition, other.spec, other.config)
        ]:
            processor.scope.add(
                AT,
                f'topic "{name}" is also written by processor "{other.definition.name}", so state rows could not'
                " be told apart",
                hint="give each processor its own topic",
            )


def _kind_fits(processor: Processor, topic: Topic, entries: Entries) -> None:
    name, storage, config = topic.definition.name, topic.definition.storage, topic.config
    given = config.model_dump() if config is not None else {}
    is_table = storage == "memory" and given.get("mode") == "table"
    if not is_table and storage != "file":
        because = {"memory": "it would drop the oldest rows"}.get(storage, f"the rows are in a table of {storage}")
        processor.scope.add(
            AT,
            f'topic "{name}" ({storage}) can\'t store state: {because}',
            expected=f'a file topic, or a memory topic with mode = "table" and key_field = "{KEY}"',
        )
        return
    if not is_table:
        return
    if given["key_field"] != KEY:
        processor.scope.add(
            AT,
            f'table "{name}" can\'t store state: rows of one window must replace each other',
            expected=f'key_field = "{KEY}"',
            found=given["key_field"],
        )
    wanted = processor.definition.config.get("state_format")
    plugins = {entry.definition.name: entry.definition.plugin for entry in entries.formats}
    found = given["format"]
    if found != wanted and not (wanted is None and plugins.get(found, found) == "json"):
        processor.scope.add(
            AT,
            f'table "{name}" reads its keys as "{found}", but the state is written as "{wanted or "json"}"',
            hint=f'set state_format = "{found}"',
        )
