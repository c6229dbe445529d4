"""A topic in which a processor keeps its state: of a kind that can give it back, and written by nobody else."""

from __future__ import annotations

from gauss.config.entries import Entries, Processor, Topic
from gauss.config.topics import state_of, targets_of

KEY = "window_key"
AT = ("config", "state_topic")


def state_fits(processor: Processor, entries: Entries, topics: dict[str, Topic]) -> None:
    """Reports a state topic that would not do; an unknown one is told of elsewhere."""
    name = state_of(processor.spec, processor.config)
    topic = topics.get(name) if name is not None else None
    if topic is None:
        return
    target = processor.definition.target
    if target is not None and target.topic == name:
        processor.scope.add(
            AT,
            f'"state_topic" is the target itself: "{name}" would hold open rows among the results',
            hint="give it a topic of its own",
        )
        return
    _kind_fits(processor, topic, entries)
    for other in entries.processors:
        if other is not processor and name in [
            each for _, each in targets_of(other.definition, other.spec, other.config)
        ]:
            processor.scope.add(
                AT,
                f'topic "{name}" is written by processor "{other.definition.name}" too: whose state a row is could not'
                " be told",
                hint="give each processor a topic of its own",
            )


def _kind_fits(processor: Processor, topic: Topic, entries: Entries) -> None:
    name, storage, config = topic.definition.name, topic.definition.storage, topic.config
    given = config.model_dump() if config is not None else {}
    is_table = storage == "memory" and given.get("mode") == "table"
    if not is_table and storage != "file":
        because = {"memory": "it would let the oldest rows go"}.get(storage, f"the rows lie in a table of {storage}")
        processor.scope.add(
            AT,
            f'topic "{name}" ({storage}) can\'t keep a state: {because}',
            expected=f'a file topic, or a memory topic with mode = "table" and key_field = "{KEY}"',
        )
        return
    if not is_table:
        return
    if given["key_field"] != KEY:
        processor.scope.add(
            AT,
            f'table "{name}" can\'t keep a state: rows of one window must replace each other',
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
