"""Rules about reading: modes, starts and tables that processors read."""

from __future__ import annotations

from gauss.config.entries import Processor, Topic
from gauss.config.spec import ProcessorDef, SourceRef
from gauss.config.topics import Keys, sources_of, tables_of, targets_of
from gauss.config.validate import did_you_mean
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.contracts.storage import ReadMode, TopicKind
from gauss.contracts.table import TableSpec

_MODES = [mode.value for mode in ReadMode]
BOUNDED = (ReadMode.SNAPSHOT, ReadMode.QUERY)


def reads_fit(processor: Processor, topics: dict[str, Topic]) -> None:
    """Applies all of them."""
    _read_mode_fits(processor, topics)
    _looks_up_in_tables(processor, topics)
    _start_fits(processor)
    _group_fits(processor, topics)
    _subscribes_to_snapshots(processor)
    _no_latest_into_table(processor, topics)


def _read_mode_fits(processor: Processor, topics: dict[str, Topic]) -> None:
    for keys, source in sources_of(*parts_of(processor)):
        _mode_fits(processor, source, (*keys, "read") if keys == ("source",) else keys, topics)


def _mode_fits(processor: Processor, source: SourceRef, at: Keys, topics: dict[str, Topic]) -> None:
    """Checks the read mode. Faults list the modes that this processor can use on this topic."""
    topic = topics.get(source.topic)
    usable = [mode for mode in _MODES if _usable(processor, mode, topic)]
    expected = f"one of {', '.join(usable)}" if usable else ""
    if source.read not in _MODES:
        hint = did_you_mean(source.read, usable)
        processor.scope.add(at, f'unknown read mode "{source.read}"', expected=expected, hint=hint)
        return
    if source.read in usable or (processor.spec is not None and processor.spec.role is Role.SOURCE):
        return
    plugin = processor.definition.plugin
    if topic is None or topic.spec is None or topic.config is None:
        message = f'{plugin} can\'t read topic "{source.topic}" by "{source.read}"'
        processor.scope.add(at, message, expected=expected, found=source.read)
    elif isinstance(topic.spec, TableSpec):
        _refuse_table(processor, topic.spec, source, at, usable)
    elif source.read not in topic.spec.read_modes(topic.config):
        because = ": a table keeps the newest row of each key, not all records in order" if is_table(topic) else ""
        message = f'topic "{source.topic}" ({topic.definition.storage}) can\'t be read by "{source.read}"{because}'
        hint = "" if usable else f"{plugin} needs a topic that keeps all records in order"
        processor.scope.add(at, message, expected=expected, found=source.read, hint=hint)
    else:
        message = f'{plugin} can\'t read topic "{source.topic}" by "{source.read}"'
        hint = "" if usable else "read the topic from which the table is made" if is_table(topic) else ""
        processor.scope.add(at, message, expected=expected, found=source.read, hint=hint)


def _group_fits(processor: Processor, topics: dict[str, Topic]) -> None:
    source = processor.definition.source
    topic = topics.get(source.topic) if source is not None else None
    if source is None or source.group is None or topic is None or topic.spec is None or topic.spec.task_implementation:
        return
    message = f'"group" does not apply to topic "{source.topic}" ({topic.definition.storage})'
    processor.scope.add(("source", "group"), message, hint='remove "group": only topics in Kafka have consumer groups')


def _usable(processor: Processor, mode: str, topic: Topic | None) -> bool:
    """Whether a processor can use a read mode on a topic, if its storage is known."""
    can = processor.spec is None or mode in processor.spec.reads
    if topic is None or topic.spec is None or topic.config is None:
        return can
    if mode not in topic.spec.read_modes(topic.config):
        return False
    if mode == ReadMode.SNAPSHOT and not is_table(topic):  # the newest records of a log by key
        is_sink = processor.spec is not None and processor.spec.role is Role.SINK
        return can if is_sink else reads_rows(processor, mode)
    if not is_table(topic) or reads_rows(processor, mode):
        return can or is_table(topic)
    # A table on a server has no live reads, and a table of newest rows has no time range.
    return can and not is_stored(topic) and mode != ReadMode.QUERY


def _looks_up_in_tables(processor: Processor, topics: dict[str, Topic]) -> None:
    for keys, name in tables_of(processor.spec, processor.config):
        topic = topics.get(name)
        if topic is None or topic.spec is None or topic.config is None:
            continue
        storage = topic.definition.storage
        if is_stored(topic):
            because = "its rows are on a server, without versions"
        elif not is_table(topic):
            because = "it keeps all records, not the newest one of each key"
        else:
            continue
        processor.scope.add(
            keys,
            f'{processor.definition.plugin} can\'t look rows up in topic "{name}" ({storage}): {because}',
            expected='a memory topic with mode = "table"',
            hint="write the same records to such a topic, and name it here",
        )


def reads_rows(processor: Processor, mode: str) -> bool:
    """Whether the processor can read the rows of a table: transforms on Spark by `snapshot`, `query`, `subscribe`."""
    spec = processor.spec
    if spec is None or spec.role is not Role.TRANSFORM or spec.where is Where.ENGINE or spec.stateful:
        return False
    return (
        mode in (*BOUNDED, ReadMode.SUBSCRIBE)
        and ReadMode.QUERY in spec.reads
        and processor.definition.source is not None
    )


def _refuse_table(processor: Processor, spec: TableSpec, source: SourceRef, at: Keys, usable: list[str]) -> None:
    modes = " or ".join(f'"{mode}"' for mode in usable)
    hint = f"read it by {modes}, or " if usable else ""
    processor.scope.add(
        at,
        f'topic "{source.topic}" is a table in {spec.name}, which keeps rows, not records in order:'
        f' {processor.definition.plugin} can\'t read it by "{source.read}"',
        hint=f"{hint}read the topic from which it is written; query the table by SQL (gauss db url {spec.system})",
    )


def _start_fits(processor: Processor) -> None:
    source = processor.definition.source
    if source is None or source.start is None or source.read not in _MODES:
        return
    if source.read != ReadMode.OFFSET:
        because = ", which always starts at the newest record" if source.read == ReadMode.LATEST else ""
        message = f'"start" does not apply to read = "{source.read}"{because}'
        processor.scope.add(("source", "start"), message, hint='remove "start", or read by "offset"')
    elif source.start not in ("earliest", "end") and not (isinstance(source.start, int) and source.start >= 0):
        processor.scope.add(
            ("source", "start"),
            '"start" is not valid',
            expected='"earliest", "end" or an offset >= 0',
            found=source.start,
            hint=did_you_mean(str(source.start), ("earliest", "end")),
        )


def _subscribes_to_snapshots(processor: Processor) -> None:
    source, spec = processor.definition.source, processor.spec
    if source is not None and source.subscribe == "changes" and spec is not None and spec.role is Role.TRANSFORM:
        processor.scope.add(
            ("source", "subscribe"),
            '"changes" is only for sinks; a transform subscribes to snapshots, one per epoch',
            hint='remove "subscribe", or read the topic from which the table is made by "offset" to see every change',
        )


def _no_latest_into_table(processor: Processor, topics: dict[str, Topic]) -> None:
    source = processor.definition.source
    written = (topics.get(topic) for _, topic in targets_of(*parts_of(processor)))
    table = next((topic for topic in written if topic and is_table(topic)), None)
    if source and table and source.read == ReadMode.LATEST:
        processor.scope.add(
            ("source", "read"),
            f'read = "latest" skips records, so the table "{table.definition.name}" would miss keys',
            hint='read by "offset" to see every key',
            warning=True,
        )


def parts_of(processor: Processor) -> tuple[ProcessorDef, ProcessorSpec | None, PluginConfig | None]:
    return processor.definition, processor.spec, processor.config


def is_table(topic: Topic) -> bool:
    kind = kind_of(topic)
    return kind is not None and kind.has_rows


def is_stored(topic: Topic) -> bool:
    """Whether its rows are in another system: known of its storage alone, even if its config is faulty."""
    return isinstance(topic.spec, TableSpec)


def kind_of(topic: Topic) -> TopicKind | None:
    """`None` if the topic's own config is faulty."""
    return topic.spec.kind(topic.config) if topic.spec is not None and topic.config is not None else None
