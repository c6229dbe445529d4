"""What the CLI and the HTTP API ask of the engine: a `Command` by name, answered by one JSON object.

| name              | args                          | reply                                                        |
|-------------------|-------------------------------|--------------------------------------------------------------|
| `health`          |                               | `{status, reasons: [str], pid, uptime_s, free_bytes}`        |
| `ping`            |                               | `{pid, driver_heard_s}`, answered without any lock           |
| `topics`          |                               | `{topics: [Topic]}`, hidden ones (`_dead`, …) included       |
| `topic`           | `name`                        | `Topic` with `readers: [Reader]`                             |
| `topic.backup`    | `name`, `folder`              | `{folder, files, records, bytes}` of the copy                |
| `table`           | `topic`                       | of a table elsewhere: `{key: [str], columns, time, attrs}`    |
| `readers.ls`      | `topic` (optional)            | `{readers: [Reader]}`                                        |
| `readers.seek`    | `topic`, `reader`, `to`       | `Reader` after the move                                      |
| `readers.drop`    | `topic`, `reader`             | `{dropped: Reader}`                                          |
| `processors.ls`   |                               | `{processors: [Processor]}`                                  |
| `processors.retry`| `name`                        | `{queued: true, processor, action: "retry"}`                 |
| `processors.skip` | `name`                        | `{queued: true, processor, action: "skip"}`                  |
| `processors.drop_state`| `name`                   | `{queued: true, processor, action: "drop_state"}`            |
| `processors.rebuild`| `name`                      | `{queued: true, processor, action: "rebuild", targets}`      |
| `dlq.ls`          | `processor` (optional)        | `{total, groups: [DeadGroup]}`                               |
| `dlq.show`        | `Choice`, `limit` (20)        | `{letters: [Letter]}`, newest first                          |
| `dlq.replay`      | `Choice` with `processor`; `corrected` | `{replayed, already, refused, refused_hint}`        |
| `dlq.discard`     | `Choice`, or `any` (a list of those) | `{discarded}`                                         |
| `feed.claim`      | `writer`, `generation`        | `Fed`; fences smaller generations of an outside writer       |
| `feed.position`   | `writer`                      | `Fed`                                                        |
| `scans`           |                               | `{scans: [Scan]}`: cursors of other processes                |
| `scan.explain`    | `topic`, `program` (a blob in base64), `rows` | `Plan`                                       |
| `metrics`         |                               | `{metrics: [Metric]}`                                        |
| `drain`           | `seconds` (5)                 | `{drained: true}` once sources stopped and sinks are flushed |

Shapes:
- `status`: `starting`, `ready`, `degraded` (with `reasons`), `draining`.
- `Topic`: `{name, storage, hidden, inc, floor, end, records, bytes, capacity_records, capacity_bytes, fill (0…1, null
  when unbounded), write_full, appended, appended_bytes, dropped, overwritten, missed, lost, set_aside, damaged,
  blocked_s, blocked_by (in words), blocked_reader, last_ts_ms, times_vary, read_modes: [str]}`; `appended`, `dropped`,
  `overwritten`: since start. `topic` adds `partitions: [{partition, floor, end, readers: [Reader]}]`, of a topic in an
  outside system.
- `Reader`: `{topic, name, position, behind (records), behind_ms, missed, lost_on_restart, idle_s}`; `to` of a seek is
  `earliest`, `end`, an offset or `-N`.
- `Processor`: `{name, plugin, role (source|transform|sink), where (engine|spark), state, detail, source, target (the
  first of those), sources: [str], targets: [str], records, bytes, dead, behind, behind_ms, epoch, generation, vain,
  connections, accepted, refused, clients, batch_rows, batch_ms, rows_per_second, failures, runs (hosted|table|columns|
  partials on Spark), trace, under_way (epochs of standing tasks that are not published yet), tasks: [Task]}`; `state`:
  starting, running, waiting, failed, stopped, done.
- `Task`: `{task (its number), told_s (how long ago), rows, wait_ms, read_ms, work_ms, publish_ms, attempt, where}` of
  its last epoch.
- `DeadGroup`: `{reason, stage, processor, count, first_ts_ms, last_ts_ms}`.
- `Choice`: `processor`, `reason`, `stage`, `offsets` and `before`, all optional. `offsets` are `dead_offset`s, which a
  letter keeps, and so is `before`, which is exclusive.
- `Letter`: `{dead_offset, reason, detail, stage, processor, topic, inc, offset, ts_ms, column, data (base64), truncated
  (only if cut: the original length), attempts (how often its processor refused it)}`; replayed ones are left out until
  they come back.
- `corrected`: dead_offset → base64 of the bytes that are replayed in place of the letter's own.
- `Fed`: `{fence, generation, number, position}`: the claimed generation, and the last commit (0, 0, null: none).
- `Scan`: `{scan (its number), topic, name, mode, program, pinned_version, position, hold, floor, end, fuel, read_bytes,
  seconds}`.
- `Plan`: `{topic, mode, view, stages: [str], output, columns: [str], backend, format: {name, why} or null, decodes:
  {field: kind}, reads: [str], pushed_down: [str], sql (what a table elsewhere is asked), pinned_version, candidates,
  cost: {per_candidate, scan_at_least, max_per_candidate, max_scan}}`.
- `Metric`: `{name, type (counter|gauge), help, labels: {str: str}, value}`; names start with `gauss_`.

An unknown name or a missing argument is a ConfigError, an unknown topic, reader or processor NotFound.
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gauss.clients.engine.positions import partition_of, topic_of
from gauss.clients.engine.protocol import Command
from gauss.contracts.processor import Role
from gauss.contracts.storage import TopicKind
from gauss.model.errors import ConfigError, NotFound, Rejected
from gauss.model.names import retry_topic, table_processor
from gauss.stream.engine.delivery.dead_letters import Choice, chosen
from gauss.stream.engine.delivery.rebuild import refuse_rows_of_others
from gauss.stream.engine.observe.metrics import metrics
from gauss.stream.engine.observe.status import health_reasons, processor_row, starting, topic_row
from gauss.stream.engine.server.range_reads import start_offset
from gauss.stream.engine.server.scan_plan import explain
from gauss.stream.engine.server.scan_sources import scan_rows
from gauss.stream.formats import topic_format

if TYPE_CHECKING:
    from gauss.contracts.letter import Letter
    from gauss.stream.engine.runtime import Engine
    from gauss.stream.engine.topics.topic import Topic


def run(engine: Engine, command: Command) -> dict[str, Any]:
    """Runs one command."""
    if command.name not in COMMANDS:
        raise ConfigError(f'no command "{command.name}"', hint=f"there are: {', '.join(COMMANDS)}")
    return COMMANDS[command.name](engine, Arguments(command))


class Arguments:
    """The arguments of a command; a missing one raises an error that names it."""

    def __init__(self, command: Command) -> None:
        self._command = command

    def text(self, key: str, default: str | None = None) -> str:
        return str(self._one(key, default))

    def number(self, key: str, default: int) -> int:
        value = self._one(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f'command "{self._command.name}": expected a number for "{key}", found {value!r}')
        return int(value)

    def optional(self, key: str) -> Any:
        return self._command.args.get(key)

    def _one(self, key: str, default: Any) -> Any:
        value = self._command.args.get(key)
        if value is None:
            value = default
        if value is None:
            raise ConfigError(f'command "{self._command.name}" needs "{key}"')
        return value


def _health(engine: Engine, _: Arguments) -> dict[str, Any]:
    reasons = health_reasons(engine)
    status = "draining" if engine.draining else "degraded" if reasons else "starting" if starting(engine) else "ready"
    return {
        "status": status,
        "reasons": reasons,
        "pid": os.getpid(),
        "uptime_s": round(time.monotonic() - engine.began, 1),
        "free_bytes": engine.free_bytes,
    }


def _ping(engine: Engine, _: Arguments) -> dict[str, Any]:
    return {"pid": os.getpid(), "driver_heard_s": round(engine.board.silent_s(), 1)}


def _topics(engine: Engine, _: Arguments) -> dict[str, Any]:
    return {"topics": [topic_row(engine.graph.topics.get(topic.name), topic) for topic in engine.shown.values()]}


def _topic(engine: Engine, args: Arguments) -> dict[str, Any]:
    topic = engine.state(args.text("name"))
    places = engine.partitions[topic.name].places if topic.name in engine.partitions else {}
    return {
        **topic_row(engine.graph.topics.get(topic.name), topic),
        "readers": engine.progress.readers(topic),
        "partitions": [
            {
                "partition": partition_of(key),
                "floor": place.floor(),
                "end": place.version(),
                "readers": engine.progress.readers(place),
            }
            for key, place in places.items()
        ],
    }


def _backup(engine: Engine, args: Arguments) -> dict[str, Any]:
    return engine.state(args.text("name")).backup(Path(args.text("folder")))._asdict()


def _table(engine: Engine, args: Arguments) -> dict[str, Any]:
    topic = engine.topic(args.text("topic"))
    if topic.stored is None:
        raise ConfigError(f'topic "{topic.name}" is not a table of an outside system', hint="see it with gauss topics")
    reader = topic.stored.reader
    columns = {column.name: column.field_type.name for column in reader.columns}
    return {"key": list(reader.key), "columns": columns, "time": reader.time, "attrs": reader.attrs}


def _readers(engine: Engine, args: Arguments) -> dict[str, Any]:
    only = args.optional("topic")
    topics = [engine.state(topic_of(only))] if only else engine.shown.values()
    rows = [row for topic in topics for row in engine.progress.readers(topic)]
    rows += [
        row
        for topic in topics
        if topic.name in engine.partitions
        for place in engine.partitions[topic.name].places.values()
        for row in engine.progress.readers(place)
    ]
    return {"readers": [row for row in rows if not only or only in (row["topic"], topic_of(row["topic"]))]}


def _read_topic(engine: Engine, args: Arguments) -> Topic:
    """The topic of a reader. Processors read the partitions of a topic in an outside system: `orders/3`."""
    key = args.text("topic")
    is_processor = args.text("reader") in engine.publisher.running
    if topic_of(key) in engine.partitions and (is_processor or key != topic_of(key)) and key in engine.places:
        return engine.places[key]
    return engine.topic(key)


def _reader(engine: Engine, args: Arguments) -> dict[str, Any]:
    topic, name = _read_topic(engine, args), args.text("reader")
    found = next((row for row in engine.progress.readers(topic) if row["name"] == name), None)
    if found is None:
        known = ", ".join(row["name"] for row in engine.progress.readers(topic)) or "none"
        raise NotFound(f'topic "{topic.name}" has no reader "{name}"', hint=f"registered: {known}")
    return found


def _seek(engine: Engine, args: Arguments) -> dict[str, Any]:
    _reader(engine, args)
    topic, name, to = _read_topic(engine, args), args.text("reader"), args.text("to")
    topics = [topic]
    if topic is not engine.topics.get(topic.name) and args.text("topic") in engine.partitions:
        topics = list(engine.partitions[topic.name].places.values())  # of all partitions, unless one is named
        if len(topics) > 1 and to not in ("earliest", "end"):
            raise ConfigError(
                f'expected "earliest" or "end" for a topic of {len(topics)} partitions, found "{to}"',
                hint=f"name the partition of an offset: {topic.name}/1",
            )
    for each in topics:
        offset = start_offset(each, to)
        offset = each.floor() if offset is None else offset
        if not each.floor() <= offset <= each.version():
            raise ConfigError(f"expected an offset from {each.floor()} to {each.version()}, found {offset}")
        if name in engine.publisher.running:
            engine.publisher.seek(name, each.name, offset)
        else:
            each.seek(name, offset)
    return _reader(engine, args)


def _drop(engine: Engine, args: Arguments) -> dict[str, Any]:
    row = _reader(engine, args)
    topic, name = _read_topic(engine, args), args.text("reader")
    topic.drop_reader(name)
    if name in engine.publisher.running:
        engine.publisher.running[name].readers.pop(topic.name, None)
    engine.ledger.drop([(topic.name, name)], [])
    return {"dropped": row}


def _processors(engine: Engine, _: Arguments) -> dict[str, Any]:
    return {"processors": [processor_row(engine, node) for node in engine.graph.processors.values()]}


def _driver_command(action: str) -> Callable[[Engine, Arguments], dict[str, Any]]:
    def tell(engine: Engine, args: Arguments) -> dict[str, Any]:
        name = args.text("name")
        if name in engine.edges:
            raise ConfigError(
                f'"{name}" is a source or sink: it retries by itself', hint="only transforms can be retried"
            )
        engine.publisher.resume(name)
        if name in engine.pumps:
            engine.pumps[name].retry(skip=action == "skip")
        else:
            engine.board.tell(name, action)
        return {"queued": True, "processor": name, "action": action}

    return tell


def _skip(engine: Engine, args: Arguments) -> dict[str, Any]:
    name = args.text("name")
    node = engine.graph.processors.get(name)
    running = engine.publisher.running.get(name)
    if node is not None and (node.stateful or (running is not None and running.stateful)):
        raise ConfigError(
            f'"{name}" keeps a state, to which every batch adds: without one of them the state would be wrong',
            hint=f"fix the cause, then: gauss processors retry {name}; or continue behind the batch with an"
            f" empty state: gauss readers seek {node.sources[0].topic} {name} OFFSET, then: gauss processors drop-state"
            f" {name}",
        )
    if running is not None and running.job is not None:
        engine.grants.skip(name, engine.board.query(name).detail)
        return {**_driver_command("retry")(engine, args), "action": "skip"}
    return _driver_command("skip")(engine, args)


def _rebuild(engine: Engine, args: Arguments) -> dict[str, Any]:
    name = args.text("name")
    node = engine.graph.processors.get(name)
    if node is None or node.role is not Role.TRANSFORM:
        engine.publisher.processor(name)  # raises if the processor is unknown
        raise ConfigError(f'"{name}" is a source or sink', hint="only transforms can be rebuilt")
    for target in node.targets:
        if engine.graph.topics[target].shared:
            hint = "delete its records there, then move the processor to its oldest record with gauss readers seek"
            raise Rejected(f'topic "{target}" is in an outside system, for others too, and is not emptied', hint=hint)
        others = [writer.name for writer in engine.graph.writers(target) if writer.name != name]
        if others:
            raise Rejected(
                f'topic "{target}" is also written by {", ".join(others)}, whose records would be deleted',
                hint="give the processor a target of its own, or use gauss processors drop-state",
            )
        if engine.graph.topics[target].kind is TopicKind.STORED_TABLE:
            from gauss.stream.tables import table_topic  # imports the table's client

            table = table_topic(engine.pipeline, target, engine.base_dir, engine.paths)
            retries = engine.topics[retry_topic(table_processor(target))]
            refuse_rows_of_others(table, [engine.topics[target].inc, -retries.inc])
    engine.publisher.rebuild(name, list(node.targets))
    return {**_driver_command("retry")(engine, args), "action": "rebuild", "targets": list(node.targets)}


def _drop_state(engine: Engine, args: Arguments) -> dict[str, Any]:
    engine.publisher.processor(args.text("name")).drop_state = True
    return {**_driver_command("retry")(engine, args), "action": "drop_state"}


def _dead_groups(engine: Engine, args: Arguments) -> dict[str, Any]:
    only = args.text("processor", "")
    groups = [group for group in engine.dead.groups() if only in ("", group["processor"])]
    return {"total": sum(group["count"] for group in groups), "groups": groups}


def _dead_letters(engine: Engine, args: Arguments) -> dict[str, Any]:
    found = engine.dead.newest(args.number("limit", 20), _choice(args))
    return {"letters": [_shown(number, letter) for number, letter in found]}


def _shown(number: int, letter: Letter) -> dict[str, Any]:
    letter.number = msgspec.UNSET
    return {"dead_offset": number, **msgspec.to_builtins(letter)}


def _replay(engine: Engine, args: Arguments) -> dict[str, Any]:
    corrected = {int(offset): base64.b64decode(data) for offset, data in (args.optional("corrected") or {}).items()}
    return engine.replay.send(args.text("processor"), _choice(args), corrected)


def _discard(engine: Engine, args: Arguments) -> dict[str, Any]:
    given = args.optional("any")
    choices = [_choice(args)] if given is None else [chosen(one) for one in given]
    return {"discarded": engine.dead.discard(lambda number, letter: any(fits(number, letter) for fits in choices))}


def _choice(args: Arguments) -> Choice:
    return chosen({key: args.optional(key) for key in ("processor", "reason", "stage", "offsets", "before")})


def _feed_claim(engine: Engine, args: Arguments) -> dict[str, Any]:
    return engine.feeds.claim(args.text("writer"), args.number("generation", 0))


def _feed_position(engine: Engine, args: Arguments) -> dict[str, Any]:
    return engine.feeds.position(args.text("writer"))


def _scans(engine: Engine, _: Arguments) -> dict[str, Any]:
    return {"scans": scan_rows(engine.scans, engine.topics)}


def _explain(engine: Engine, args: Arguments) -> dict[str, Any]:
    from gauss.scan.program.blob import decode_program

    topic = engine.topic(args.text("topic")).scannable(rows=bool(args.optional("rows")))
    try:
        blob = base64.b64decode(args.text("program"), validate=True)
    except binascii.Error as error:
        raise ConfigError(f'command "scan.explain": "program" is not base64: {error}') from None
    return explain(topic, decode_program(blob), topic_format(engine.pipeline, topic.name))


def _metrics(engine: Engine, _: Arguments) -> dict[str, Any]:
    return {"metrics": metrics(engine)}


def _standing_job(engine: Engine, _: Arguments) -> dict[str, Any]:
    return {"job": engine.grants.new_job()}


def _standing_end(engine: Engine, args: Arguments) -> dict[str, Any]:
    engine.grants.end_job(args.number("job", 0), args.number("keep", 0))
    return {"told": True}


def _standing_news(engine: Engine, _: Arguments) -> dict[str, Any]:
    return {"news": engine.grants.news()}


def _drain(engine: Engine, args: Arguments) -> dict[str, Any]:
    engine.drain(args.number("seconds", 5))
    return {"drained": True}


COMMANDS: dict[str, Callable[[Engine, Arguments], dict[str, Any]]] = {
    "health": _health,
    "ping": _ping,
    "topics": _topics,
    "topic": _topic,
    "topic.backup": _backup,
    "table": _table,
    "readers.ls": _readers,
    "readers.seek": _seek,
    "readers.drop": _drop,
    "processors.ls": _processors,
    "processors.retry": _driver_command("retry"),
    "processors.skip": _skip,
    "processors.rebuild": _rebuild,
    "processors.drop_state": _drop_state,
    "dlq.ls": _dead_groups,
    "dlq.show": _dead_letters,
    "dlq.replay": _replay,
    "dlq.discard": _discard,
    "feed.claim": _feed_claim,
    "feed.position": _feed_position,
    "scans": _scans,
    "scan.explain": _explain,
    "metrics": _metrics,
    "standing.job": _standing_job,
    "standing.end": _standing_end,
    "standing.news": _standing_news,
    "drain": _drain,
}
