"""What only the whole shows: names, roles, topics, read modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gauss.config.bounds_rules import bounds_fit
from gauss.config.cycles import no_blocking_cycle
from gauss.config.entries import Entries, Processor, Topic
from gauss.config.faults import Faults, Scope
from gauss.config.listeners import cluster_is_guarded, outside_is_guarded, ports_differ, servers_are_encrypted
from gauss.config.spec import ProcessorDef, SourceRef, TopicDef
from gauss.config.state_rules import state_fits
from gauss.config.topics import Keys, sources_of, tables_of, targets_of
from gauss.config.validate import did_you_mean
from gauss.contracts.live import LiveFormatSpec
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.contracts.storage import ReadMode
from gauss.contracts.table import TableSpec

_MODES = [mode.value for mode in ReadMode]


def check_graph(entries: Entries, faults: Faults) -> None:
    """Every rule; each reports for itself."""
    topics = {topic.definition.name: topic for topic in entries.topics}
    _names_are_unique(entries)
    for processor in entries.processors:
        _role_fits(processor)
        _topics_exist(processor, entries)
        _read_mode_fits(processor, topics)
        _looks_up_in_tables(processor, topics)
        state_fits(processor, entries, topics)
        _start_fits(processor)
        bounds_fit(processor)
        _subscribes_to_snapshots(processor)
        _own_lint(processor, entries)
        _no_latest_into_table(processor, topics)
        _no_records_into_captures(processor, topics)
    _schema_maps_exist(entries)
    _tables_have_columns(entries)
    _folders_differ(entries, faults)
    ports_differ(entries, faults)
    outside_is_guarded(entries, faults)
    servers_are_encrypted(entries, faults)
    no_blocking_cycle(entries, topics)
    _everything_is_written(entries, faults)
    cluster_is_guarded(entries, faults)


def _names_are_unique(entries: Entries) -> None:
    named: dict[str, list[tuple[Scope, str]]] = {
        "format": [(entry.scope, entry.definition.name) for entry in entries.formats],
        "topic": [(entry.scope, entry.definition.name) for entry in entries.topics],
        "processor": [(entry.scope, entry.definition.name) for entry in entries.processors],
        "schema map": [(scope, entry.name) for scope, entry in entries.schema_maps],
    }
    for kind, found in named.items():
        first: dict[str, Scope] = {}
        for scope, name in found:
            if name in first:
                message = f"this {kind} is defined twice, first in line {first[name].line('name')}"
                scope.add(("name",), message, hint="rename one of them")
            first.setdefault(name, scope)


def _role_fits(processor: Processor) -> None:
    if processor.spec is None:
        return
    role = processor.spec.role
    plugin = f"a {role} ({processor.definition.plugin})"
    examples = {"source": 'source = { topic = "…", read = "offset" }', "target": 'target = { topic = "…" }'}
    own = processor.spec.own_side
    for key, wanted in (
        ("source", role is not Role.SOURCE and own != "source"),
        ("target", role is not Role.SINK and own != "target"),
    ):
        given = getattr(processor.definition, key) is not None
        if key == "target" and not given and processor.spec.is_raw(processor.definition.config):
            continue  # its lint knows whether it may do without
        if given == wanted or processor.scope.has(key):
            continue
        if wanted:
            processor.scope.add((key,), f'"{key}" is missing: {plugin} needs one', hint=f"add {examples[key]}")
        else:
            does = "only writes to a topic" if key == "source" else "only reads from a topic"
            does = f"names its {key}s in its config" if key == own else does
            processor.scope.add((key,), f'{plugin} has no "{key}": it {does}', hint=f'remove "{key}"')


def _topics_exist(processor: Processor, entries: Entries) -> None:
    known = entries.names["topics"]
    sources = [(keys, source.topic) for keys, source in sources_of(*_parts(processor))]
    tables = tables_of(processor.spec, processor.config)
    for keys, topic in [*sources, *tables, *targets_of(*_parts(processor))]:
        if topic not in known:
            processor.scope.add(
                (*keys, "topic") if keys in (("source",), ("target",)) else keys,
                f'unknown topic "{topic}"',
                expected=f"one of {', '.join(sorted(known))}" if known else "a [[topics]] entry",
                hint=did_you_mean(topic, known) or "define it in [[topics]]",
            )


def _parts(processor: Processor) -> tuple[ProcessorDef, ProcessorSpec | None, PluginConfig | None]:
    return processor.definition, processor.spec, processor.config


def _read_mode_fits(processor: Processor, topics: dict[str, Topic]) -> None:
    for keys, source in sources_of(*_parts(processor)):
        _mode_fits(processor, source, (*keys, "read") if keys == ("source",) else keys, topics)


def _mode_fits(processor: Processor, source: SourceRef, at: Keys, topics: dict[str, Topic]) -> None:
    """Every fault lists the modes that this processor can use on this topic, and no others."""
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
        because = ": a table keeps the newest row of each key, not an order of records" if _is_table(topic) else ""
        message = f'topic "{source.topic}" ({topic.definition.storage}) can\'t be read by "{source.read}"{because}'
        hint = "" if usable else f"{plugin} can't read such a topic: read one that keeps records in their order"
        processor.scope.add(at, message, expected=expected, found=source.read, hint=hint)
    else:
        message = f'{plugin} can\'t read topic "{source.topic}" by "{source.read}"'
        hint = "" if usable else "read the topic from which the table is made" if _is_table(topic) else ""
        processor.scope.add(at, message, expected=expected, found=source.read, hint=hint)


def _usable(processor: Processor, mode: str, topic: Topic | None) -> bool:
    """Whether a processor can use a read mode, on this topic if its storage is known."""
    can = processor.spec is None or mode in processor.spec.reads
    if topic is None or topic.spec is None or topic.config is None:
        return can
    if mode not in topic.spec.read_modes(topic.config):
        return False
    if not _is_table(topic) or _reads_rows(processor, mode):
        return can or _is_table(topic)
    # A server's table has no live reads, and a range of times means nothing where only the newest rows are kept.
    return can and not isinstance(topic.spec, TableSpec) and mode != ReadMode.QUERY


def _looks_up_in_tables(processor: Processor, topics: dict[str, Topic]) -> None:
    for keys, name in tables_of(processor.spec, processor.config):
        topic = topics.get(name)
        if topic is None or topic.spec is None or topic.config is None:
            continue
        storage = topic.definition.storage
        if isinstance(topic.spec, TableSpec):
            because = "its rows lie in a server that keeps no versions of them"
        elif not _is_table(topic):
            because = "it keeps records in their order, not the newest one of each key"
        else:
            continue
        processor.scope.add(
            keys,
            f'{processor.definition.plugin} can\'t look rows up in topic "{name}" ({storage}): {because}',
            expected='a memory topic with mode = "table"',
            hint="fill such a topic from the same records, and name it here",
        )


def _reads_rows(processor: Processor, mode: str) -> bool:
    """Whether it may read a table's rows: a transform on Spark, by `snapshot`, `query` or `subscribe`."""
    spec = processor.spec
    if spec is None or spec.role is not Role.TRANSFORM or spec.where is Where.ENGINE or spec.stateful:
        return False
    return (
        mode in (*_BOUNDED, ReadMode.SUBSCRIBE)
        and ReadMode.QUERY in spec.reads
        and processor.definition.source is not None
    )


def _refuse_table(processor: Processor, spec: TableSpec, source: SourceRef, at: Keys, usable: list[str]) -> None:
    modes = " or ".join(f'"{mode}"' for mode in usable)
    hint = f"read it by {modes}, or " if usable else ""
    processor.scope.add(
        at,
        f'topic "{source.topic}" is a table of {spec.name}, which keeps rows, not the records in their order:'
        f' {processor.definition.plugin} can\'t read it by "{source.read}"',
        hint=f"{hint}read the topic that is written to it; ask the table itself by SQL (gauss db url {spec.system})",
    )


def _start_fits(processor: Processor) -> None:
    source = processor.definition.source
    if source is None or source.start is None or source.read not in _MODES:
        return
    if source.read != ReadMode.OFFSET:
        because = ", which always begins at the newest record" if source.read == ReadMode.LATEST else ""
        message = f'"start" has no meaning with read = "{source.read}"{because}'
        processor.scope.add(("source", "start"), message, hint='remove "start", or read by "offset"')
    elif source.start not in ("earliest", "end") and not (isinstance(source.start, int) and source.start >= 0):
        processor.scope.add(
            ("source", "start"),
            '"start" is not valid',
            expected='"earliest", "end" or an offset from 0 on',
            found=source.start,
            hint=did_you_mean(str(source.start), ("earliest", "end")),
        )


def _subscribes_to_snapshots(processor: Processor) -> None:
    source, spec = processor.definition.source, processor.spec
    if source is not None and source.subscribe == "changes" and spec is not None and spec.role is Role.TRANSFORM:
        processor.scope.add(
            ("source", "subscribe"),
            'a transform subscribes to snapshots, each of which is an epoch; "changes" is for sinks',
            hint='remove "subscribe", or read the topic from which the table is made by "offset" to see every change',
        )


def _own_lint(processor: Processor, entries: Entries) -> None:
    """What only the processor itself can see. A sentence that opens with `key:` is put at that key's line."""
    if processor.spec is None or processor.spec.lint is None or processor.config is None:
        return
    source, target = processor.definition.source, _target(processor, entries)
    context = LintContext(
        input_fields=_input_fields(processor, entries),
        read=source.read if source else "",
        start=source.start if source else None,
        target_storage=target.storage if target else "",
        target_config=target.storage_config if target else {},
        has_target=processor.definition.target is not None,
    )
    config = processor.config
    if source is not None and _reads_rows(processor, source.read) and getattr(config, "input", None) is not None:
        table = next((each for each in entries.topics if each.definition.name == source.topic), None)
        if table is not None and _is_table(table):
            config = _with_rows(config)
    try:
        sentences = processor.spec.lint(config, context)
    except Exception as error:  # a third party's code may fail in any way
        sentences = [f"{processor.definition.plugin} failed to judge its config: {type(error).__name__}: {error}"]
    for sentence in sentences:
        key, colon, _ = sentence.partition(":")
        inside = ("config", key) if colon and key in processor.definition.config else ("config",)
        processor.scope.add(inside, sentence)


def _target(processor: Processor, entries: Entries) -> TopicDef | None:
    target = processor.definition.target
    found = (topic.definition for topic in entries.topics if target and topic.definition.name == target.topic)
    return next(found, None)


def _with_rows(config: PluginConfig) -> PluginConfig:
    """The rows of a table need no format: they have columns."""
    given: Any = config
    if given.input.format is not None:
        return config
    return config.model_copy(update={"input": given.input.model_copy(update={"format": "json"})})


def _input_fields(processor: Processor, entries: Entries) -> tuple[str, ...] | None:
    """The fields that the input format's config names, None when it has none."""
    table = processor.definition.config.get("input")
    name = table.get("format") if isinstance(table, dict) else None
    for entry in entries.formats:
        if entry.definition.name == name:
            fields = getattr(entry.config, "fields", None)
            return tuple(field.name for field in fields) if fields else None
    return None


def _schema_maps_exist(entries: Entries) -> None:
    known = entries.names["schema_maps"]
    for topic in entries.topics:
        name = topic.definition.storage_config.get("schema_map")
        if isinstance(name, str) and name not in known and not topic.scope.has("storage_config", "schema_map"):
            topic.scope.add(
                ("storage_config", "schema_map"),
                f'unknown schema map "{name}"',
                expected=f"one of {', '.join(sorted(known))}" if known else "a [[schema_maps]] entry",
                hint=did_you_mean(name, known),
            )


def _tables_have_columns(entries: Entries) -> None:
    """A table is made of a format's fields: a format that names none can't fill one."""
    formats = {entry.definition.name: entry for entry in entries.formats}
    for topic in entries.topics:
        given = topic.definition.storage_config
        name, mapped = given.get("format"), given.get("schema_map")
        if not isinstance(topic.spec, TableSpec) or topic.scope.has("storage_config", "format"):
            continue
        at = ("storage_config", "format")
        if name is None:
            if mapped is not None and not _gets_rows(topic, entries):
                topic.scope.add(at, '"schema_map" needs the "format" whose fields it maps', hint="name the format")
            continue
        entry = formats.get(name)
        if entry is not None and isinstance(entry.spec, LiveFormatSpec):
            continue  # a live system has the columns
        plugin = entry.definition.plugin if entry else name
        known = getattr(entry.config, "fields", _NO_FIELDS) if entry and entry.config else _NO_FIELDS
        if plugin == "auto" or known is None or known == [] or (entry is None and plugin in ("json", "msgpack", "csv")):
            topic.scope.add(
                at,
                f'the format "{name}" names no fields, so there is nothing to make columns of',
                expected="a format with a schema",
                hint='give it fields: config = { fields = [{ name = "symbol", type = "string" }, …] }',
            )


def _gets_rows(topic: Topic, entries: Entries) -> bool:
    """Whether its one writer reads a table elsewhere, whose columns it passes on."""
    own = topic.definition.name
    writers = [each for each in entries.processors if own in [name for _, name in targets_of(*_parts(each))]]
    source = writers[0].definition.source if len(writers) == 1 else None
    read = next((each for each in entries.topics if source is not None and each.definition.name == source.topic), None)
    return read is not None and isinstance(read.spec, TableSpec) and source is not None and source.read in _BOUNDED


_BOUNDED = (ReadMode.SNAPSHOT, ReadMode.QUERY)
_NO_FIELDS = object()


def _folders_differ(entries: Entries, faults: Faults) -> None:
    """Two logs in one folder would write over each other."""
    first: dict[Path, Topic] = {}
    for topic in entries.topics:
        folder = getattr(topic.config, "data_dir", None)
        if not isinstance(folder, Path):
            continue
        place = (faults.file.resolve().parent / folder).resolve()
        if place in first:
            other = first[place].definition.name
            hint = "give each topic a folder of its own"
            topic.scope.add(("storage_config", "data_dir"), f'its folder is that of topic "{other}"', hint=hint)
        first.setdefault(place, topic)


def _everything_is_written(entries: Entries, faults: Faults) -> None:
    if faults.has(("processors",)):
        return  # some processor could not be read, so what it writes is not known
    # Tables are filled without one, and topics take what is sent.
    if not entries.processors and not entries.topics and not faults.errors:
        faults.add((), "there is no [[processors]] entry: nothing would run", hint="gauss new writes a starter")
    written = {topic for entry in entries.processors for _, topic in targets_of(*_parts(entry))}
    for topic in entries.topics:
        if topic.definition.name not in written:
            hint = "records can still come by gauss send or HTTP"
            topic.scope.add(("name",), "no processor writes to it", hint=hint, warning=True)


def _no_latest_into_table(processor: Processor, topics: dict[str, Topic]) -> None:
    source = processor.definition.source
    written = (topics.get(topic) for _, topic in targets_of(*_parts(processor)))
    table = next((topic for topic in written if topic and _is_table(topic)), None)
    if source and table and source.read == ReadMode.LATEST:
        processor.scope.add(
            ("source", "read"),
            f'read = "latest" skips records, so keys of the table "{table.definition.name}" would be missed',
            hint='read by "offset" to see every key',
            warning=True,
        )


def _no_records_into_captures(processor: Processor, topics: dict[str, Topic]) -> None:
    if processor.spec is None or processor.spec.is_raw(processor.definition.config):
        return
    for keys, name in targets_of(*_parts(processor)):
        topic = topics.get(name)
        if topic and topic.spec and topic.config and ReadMode.RAW in topic.spec.read_modes(topic.config):
            processor.scope.add(
                keys,
                f'topic "{name}" keeps captures (framing = "none"), which hold no records',
                hint='give the topic a framing, or set mode = "passthrough" on a tcp-source that writes it',
            )


def _is_table(topic: Topic) -> bool:
    if topic.spec is None or topic.config is None:
        return False
    modes = topic.spec.read_modes(topic.config)
    return ReadMode.SNAPSHOT in modes and ReadMode.OFFSET not in modes
