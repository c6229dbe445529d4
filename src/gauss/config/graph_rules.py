"""Rules about the pipeline as a whole: names, roles, topics, read modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gauss.config.bounds_rules import bounds_fit
from gauss.config.cycles import no_blocking_cycle
from gauss.config.entries import Entries, Processor, Topic
from gauss.config.faults import Faults, Scope
from gauss.config.listeners import cluster_is_guarded, outside_is_guarded, ports_differ, servers_are_encrypted
from gauss.config.meta_rules import judged_meta
from gauss.config.read_rules import BOUNDED, is_stored, is_table, kind_of, parts_of, reads_fit, reads_rows
from gauss.config.spec import TopicDef
from gauss.config.state_rules import state_fits
from gauss.config.sync_rules import topics_fed
from gauss.config.topics import sources_of, tables_of, targets_of
from gauss.config.validate import did_you_mean
from gauss.contracts.outside import LiveFormatSpec
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, Role
from gauss.contracts.storage import TopicKind


def check_graph(entries: Entries, faults: Faults) -> None:
    """Applies all rules."""
    topics = {topic.definition.name: topic for topic in entries.topics}
    _names_are_unique(entries)
    for processor in entries.processors:
        _role_fits(processor)
        _topics_exist(processor, entries)
        reads_fit(processor, topics)
        state_fits(processor, entries, topics)
        bounds_fit(processor)
        _own_lint(processor, entries)
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
        "sync": [(scope, entry.name) for scope, entry in entries.syncs],
        "database": [(scope, entry.name) for scope, entry in entries.databases],
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
            continue  # its own lint checks whether it is required
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
    sources = [(keys, source.topic) for keys, source in sources_of(*parts_of(processor))]
    tables = tables_of(processor.spec, processor.config)
    for keys, topic in [*sources, *tables, *targets_of(*parts_of(processor))]:
        if topic not in known:
            processor.scope.add(
                (*keys, "topic") if keys in (("source",), ("target",)) else keys,
                f'unknown topic "{topic}"',
                expected=f"one of {', '.join(sorted(known))}" if known else "a [[topics]] entry",
                hint=did_you_mean(topic, known) or "define it in [[topics]]",
            )


def _own_lint(processor: Processor, entries: Entries) -> None:
    """Runs the lint of each plugin. A message that starts with `key:` is reported at that key."""
    if processor.spec is None or processor.spec.lint is None or processor.config is None:
        return
    source, target = processor.definition.source, _target(processor, entries)
    fields = _input_fields(processor, entries)
    beside = judged_meta(processor, entries, fields or ())
    fields = None if fields is None else (*fields, *beside)
    context = LintContext(
        input_fields=fields,
        read=source.read if source else "",
        start=source.start if source else None,
        target_storage=target.storage if target else "",
        target_config=target.storage_config if target else {},
        has_target=processor.definition.target is not None,
    )
    config = processor.config
    if source is not None and reads_rows(processor, source.read) and getattr(config, "input", None) is not None:
        table = next((each for each in entries.topics if each.definition.name == source.topic), None)
        if table is not None and is_table(table):
            config = _with_rows(config)
    try:
        sentences = processor.spec.lint(config, context)
    except Exception as error:  # third-party code may raise anything
        sentences = [f"{processor.definition.plugin} failed to check its config: {type(error).__name__}: {error}"]
    for sentence in sentences:
        key, colon, _ = sentence.partition(":")
        inside = ("config", key) if colon and key in processor.definition.config else ("config",)
        processor.scope.add(inside, sentence)


def _target(processor: Processor, entries: Entries) -> TopicDef | None:
    target = processor.definition.target
    found = (topic.definition for topic in entries.topics if target and topic.definition.name == target.topic)
    return next(found, None)


def _with_rows(config: PluginConfig) -> PluginConfig:
    """Whether the input is a table, whose rows have columns and need no format."""
    given: Any = config
    if given.input.format is not None:
        return config
    return config.model_copy(update={"input": given.input.model_copy(update={"format": "json"})})


def _input_fields(processor: Processor, entries: Entries) -> tuple[str, ...] | None:
    """The fields that the input format declares, or `None`."""
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
    """Reports tables whose format declares no fields."""
    formats = {entry.definition.name: entry for entry in entries.formats}
    for topic in entries.topics:
        given = topic.definition.storage_config
        name, mapped = given.get("format"), given.get("schema_map")
        if not is_stored(topic) or topic.scope.has("storage_config", "format"):
            continue
        at = ("storage_config", "format")
        if name is None:
            if mapped is not None and not _gets_rows(topic, entries):
                topic.scope.add(at, '"schema_map" needs the "format" whose fields it maps', hint="name the format")
            continue
        entry = formats.get(name)
        if entry is not None and isinstance(entry.spec, LiveFormatSpec):
            continue  # the columns come from a live system
        plugin = entry.definition.plugin if entry else name
        known = getattr(entry.config, "fields", _NO_FIELDS) if entry and entry.config else _NO_FIELDS
        if plugin == "auto" or known is None or known == [] or (entry is None and plugin in ("json", "msgpack", "csv")):
            topic.scope.add(
                at,
                f'the format "{name}" declares no fields, so the table would have no columns',
                expected="a format with a schema",
                hint='give it fields: config = { fields = [{ name = "symbol", type = "string" }, …] }',
            )


def _gets_rows(topic: Topic, entries: Entries) -> bool:
    """Whether its only writer reads an external table and passes its columns on."""
    own = topic.definition.name
    writers = [each for each in entries.processors if own in [name for _, name in targets_of(*parts_of(each))]]
    source = writers[0].definition.source if len(writers) == 1 else None
    read = next((each for each in entries.topics if source is not None and each.definition.name == source.topic), None)
    return read is not None and is_stored(read) and source is not None and source.read in BOUNDED


_NO_FIELDS = object()


def _folders_differ(entries: Entries, faults: Faults) -> None:
    """Reports topics that share a folder: they would overwrite each other."""
    first: dict[Path, Topic] = {}
    for topic in entries.topics:
        folder = getattr(topic.config, "data_dir", None)
        if not isinstance(folder, Path):
            continue
        place = (faults.file.resolve().parent / folder).resolve()
        if place in first:
            other = first[place].definition.name
            hint = "give each topic its own folder"
            topic.scope.add(("storage_config", "data_dir"), f'it uses the folder of topic "{other}"', hint=hint)
        first.setdefault(place, topic)


def _everything_is_written(entries: Entries, faults: Faults) -> None:
    if faults.has(("processors",)):
        return  # the targets of a faulty processor are unknown
    # Topics and tables can be filled without a processor.
    if not entries.processors and not entries.topics and not entries.syncs and not faults.errors:
        faults.add((), "there is no [[processors]] entry, so nothing would run", hint="create one with gauss new")
    written = {topic for entry in entries.processors for _, topic in targets_of(*parts_of(entry))}
    written |= {topic for _, sync in entries.syncs for topic in topics_fed(sync)}
    for topic in entries.topics:
        shared = topic.spec is not None and topic.spec.task_implementation  # others write to it
        if topic.definition.name not in written and not shared:
            hint = "records can still be sent with gauss send or over HTTP"
            topic.scope.add(("name",), "no processor writes to it", hint=hint, warning=True)


def _no_records_into_captures(processor: Processor, topics: dict[str, Topic]) -> None:
    if processor.spec is None or processor.spec.is_raw(processor.definition.config):
        return
    for keys, name in targets_of(*parts_of(processor)):
        topic = topics.get(name)
        if topic and kind_of(topic) is TopicKind.CAPTURES:
            processor.scope.add(
                keys,
                f'topic "{name}" keeps captures (framing = "none"), which hold no records',
                hint='give the topic a framing, or set mode = "passthrough" on a tcp-source that writes it',
            )
