"""A pipeline's physical plan in words, from its config alone: what runs where, and what it costs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gauss.config.spec import Pipeline
from gauss.contracts.format import FormatSpec
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.contracts.time import EventTime
from gauss.model.errors import ConfigError
from gauss.model.units import counted, human_bytes
from gauss.registry import build, spec
from gauss.stream.driver.chains import Chains, Link, find_chains
from gauss.stream.driver.plan import BLOCK_ROWS, STATEFUL_MS, TransformRef, transform_ref
from gauss.stream.driver.teams import find_teams, least_slots, why_alone
from gauss.stream.graph import TABLE_PREFIX, Graph, ProcessorNode
from gauss.stream.guarantee import guarantees

RUNS = {
    "edge": "an edge in the engine: it frames bytes and is part of no query",
    "pump": "a pump in the engine: chunks of bytes go from topic to topic as they lie, and no query runs",
    "hosted": "hosted: a standing task of Spark's reads, decodes, transforms, encodes and publishes, epoch after epoch",
    "columns": "columns: Spark does the work between a reader that decodes and a writer that encodes",
    "partials": "columns over what readers have begun: each has done its part of the work on its own records",
    "table": "a table's task: a standing task of Spark's reads ranges of the inbox, decodes, maps and inserts them",
}

STANDING = ("hosted", "table")
SHARED = "shared with others that read the same topic in the same format, until one lags, fails or is slow"


@dataclass
class Explained:
    """One processor's plan."""

    processor: str
    plugin: str
    query: str
    """The query or standing task that runs it, by the name of its first processor; empty: none."""
    members: list[str]
    """Everybody in that query or task."""
    runs: str
    """A key of RUNS."""
    plan: list[tuple[str, str]] = field(default_factory=list)
    """What happens, in order: a word and what it means here."""
    borders: list[dict[str, str]] = field(default_factory=list)
    """Where its query ends or begins at another transform: the topic, the other side, and why."""
    guarantees: dict[str, str] = field(default_factory=dict)
    """What is promised at each end that it feeds."""

    def lines(self) -> list[tuple[str, str]]:
        """For people: a word and what it means here."""
        found = []
        if self.query:
            others = [name for name in self.members if name != self.processor]
            with_others = f", together with {', '.join(others)}" if others else ""
            what = "task" if self.runs in STANDING else "query"
            found.append((what, ("its own" if self.query == self.processor else f"that of {self.query}") + with_others))
        found += self.plan
        found += [("border", f"{each['topic']} ({each['other']}): {each['reason']}") for each in self.borders]
        return found + [("guarantee", f"{end}: {promise}") for end, promise in self.guarantees.items()]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "plan": [{"step": word, "what": text} for word, text in self.plan]}


def how_it_runs(node: ProcessorNode) -> str:
    """A key of RUNS."""
    if node.role is not Role.TRANSFORM:
        return "edge"
    if node.where is Where.ENGINE:
        return "pump"
    if node.name.startswith(TABLE_PREFIX):
        return "table"
    found = spec(ProcessorSpec, node.plugin)
    if found.hosted:
        return "hosted"
    return "partials" if hasattr(build(found, node.config), "partial") else "columns"


def explain(pipeline: Pipeline, graph: Graph, chains: Chains, name: str) -> Explained:
    """The plan of one processor."""
    node = graph.processors[name]
    runs = how_it_runs(node)
    members = _members(pipeline, graph, chains, node, runs)
    made = Explained(name, node.plugin, members[0] if members else "", members, runs)
    made.plan = _Words(pipeline, graph, chains, node).all()
    made.borders = [_border(link, reason, name) for link, reason in chains.borders.items() if name in link]
    fed = _fed(graph, name)
    made.guarantees = {promise.end: str(promise) for promise in guarantees(graph) if promise.end in fed}
    return made


def slots_words(pipeline: Pipeline) -> str:
    """How many of Spark's slots standing tasks hold."""
    if pipeline.spark.master.startswith("local"):
        return "on this machine every task has a slot"
    held = counted(least_slots(pipeline), "slot")
    return f"standing tasks hold {held} of {pipeline.spark.master} as long as they run, and more while they lag"


def planned(pipeline: Pipeline, graph: Graph) -> Graph:
    """The graph, with how each processor runs and in which query."""
    chains = find_chains(pipeline, graph)
    nodes = {}
    for name, node in graph.processors.items():
        runs = how_it_runs(node)
        members = _members(pipeline, graph, chains, node, runs)
        nodes[name] = replace(node, runs=runs, query=members[0] if members else "")
    return replace(graph, processors=nodes)


def _members(pipeline: Pipeline, graph: Graph, chains: Chains, node: ProcessorNode, runs: str) -> list[str]:
    """Everybody in a processor's query or task, the first one first."""
    if runs in ("edge", "pump"):
        return []
    if runs != "hosted":
        return [node.name]
    head = chains.head(node.name)
    team = next(team for team in find_teams(pipeline, graph, chains) if head in team.heads)
    return [name for each in team.heads for name in chains.members(each)]


def _border(link: Link, reason: str, name: str) -> dict[str, str]:
    other = link.writer if link.reader == name else link.reader
    return {"topic": link.topic, "other": other, "reason": reason}


def _fed(graph: Graph, name: str) -> set[str]:
    """The processor and all that lies behind it."""
    found, waiting = {name}, list(graph.processors[name].targets)
    if name.startswith(TABLE_PREFIX):
        return {name.removeprefix(TABLE_PREFIX)}
    while waiting:
        topic = waiting.pop()
        if topic in found:
            continue
        found.add(topic)
        for reader, _ in graph.readers(topic):
            found.add(reader.name)
            waiting += reader.targets
    return found


class _Words:
    """What is said of one processor, word by word."""

    def __init__(self, pipeline: Pipeline, graph: Graph, chains: Chains, node: ProcessorNode) -> None:
        self._pipeline, self._graph, self._chains, self._node = pipeline, graph, chains, node
        self._runs = how_it_runs(node)
        self._entry = next((entry for entry in pipeline.processors if entry.name == node.name), None)
        self._ref: TransformRef | None = None
        if self._runs in ("hosted", "columns", "partials") and self._entry is not None:
            self._ref = transform_ref(pipeline, self._entry)

    def all(self) -> list[tuple[str, str]]:
        found = [("runs", RUNS[self._runs])]
        if self._node.sources:
            found.append(("reads", self._reads()))
        if self._runs == "table":
            found += self._table()
        elif self._ref is not None:
            found += self._work(self._ref)
        if self._node.targets:
            found.append(("writes", self._writes()))
        found += [("inbox", text) for text in self._inboxes()]
        if self._runs not in ("edge", "pump"):
            found.append(("published", self._published()))
        return found

    def _reads(self) -> str:
        if (link := self._chains.inner().get(self._node.name)) is not None:
            return (
                f"{link.topic}, from the task of {link.writer} as it writes it; a replay of its dead letters by itself"
            )
        read = ", ".join(f"{reading.topic} by {reading.read}" for reading in self._node.sources)
        if self._runs in ("edge", "pump"):
            return read
        section = self._pipeline.spark
        if self._runs == "hosted":
            return (
                f"{read}: what there is, at once; while records wait, epochs of about {section.target_batch_ms} ms, of"
                f" at most {section.max_batch_rows:,} records or {human_bytes(section.max_batch_bytes)}"
            )
        aim = f"of about {max(section.target_batch_ms, STATEFUL_MS if self._node.stateful else 0)} ms"
        if self._runs == "table":
            aim = "as flush_interval and insert_batch_size say"
        return (
            f"{read}: batches {aim}, of at most {section.max_batch_rows:,} records or "
            f"{human_bytes(section.max_batch_bytes)}, cut into ranges at every {BLOCK_ROWS:,} records, a task each"
        )

    def _table(self) -> list[tuple[str, str]]:
        topic = self._graph.topics[self._node.sources[0].topic]
        config = self._pipeline.topic(topic.name).storage_config
        named = config.get("format")
        found = [("decodes", f"format {named}, the fields that the schema map names" if named else "nothing")]
        place = f"the embedded {topic.table}" if topic.embedded else topic.table
        found.append(("inserts", f"into {place}, range by range: a range that was inserted is not inserted again"))
        found += [("tasks", self._tasks()), ("shuffles", "none")]
        return found

    def _tasks(self) -> str:
        """How many slots it takes, and with whom it shares them."""
        if self._entry is not None and self._entry.parallelism is not None:
            return counted(self._entry.parallelism, "slot")
        return "one slot, and up to as many as there are cores while it lags"

    def _work(self, ref: TransformRef) -> list[tuple[str, str]]:
        try:
            transform, fields = ref.build()
        except ConfigError as error:
            raise ConfigError(f'processor "{self._node.name}": {error.message}', hint=error.hint) from error
        except RuntimeError:  # only Spark itself can tell what a query names
            decodes = "the fields that its query names, in the reader"
            return [("decodes", decodes), ("shuffles", self._shuffles()), ("state", self._state(None))]
        shown = [f"{each.name} {_kind(each.field_type.name)}" for each in fields]
        where = "in the task" if self._runs == "hosted" else "in the reader"
        plugin = spec(FormatSpec, ref.input.plugin).name if ref.input is not None else ""
        found = [("decodes", f"{', '.join(shown)} from {plugin}, {where}" if shown else "nothing: it passes bytes on")]
        if self._runs == "hosted" and self._node.name not in self._chains.inner():
            assert self._entry is not None
            alone = why_alone(self._graph, self._entry)
            found.append(("tasks", f"{self._tasks()}; {f'alone: {alone}' if alone else SHARED}"))
        if ref.table is not None:
            found.append(("looks up", f"rows of {ref.table.topic}, at the version that is part of the batch's offsets"))
        each = getattr(transform, "keeps_each", False)
        if self._runs == "partials" and each:
            found.append(("digests", "each key, in the reader; what repeats within its batch goes no further"))
        elif self._runs == "partials":
            found.append(("aggregates", "in the reader, per key and window (or pane); only those rows pass the JVM"))
        time: EventTime | None = getattr(transform, "time", None)
        if slot_ms := getattr(transform, "blocks_ms", 0):
            kept = f"blocks of records, each of one slot of {_seconds(slot_ms)}"
            found.append(("joins", f"{kept}; the writer's task finds the pairs in blocks that Spark brings together"))
        found.append(("shuffles", "blocks, into one partition" if slot_ms else self._shuffles()))
        found.append(("state", self._state(time)))
        if time is not None:
            found.append(("closes", _closes(time)))
        return found

    def _shuffles(self) -> str:
        if self._runs == "hosted":
            return "none"
        if self._node.stateful is None:
            return "where it groups, sorts or joins; into one partition unless [spark] conf says more"
        if not self._node.stateful:
            return "none"
        if self._node.plugin == "dedup":
            return "none: one task takes a batch, in the order of arrival"
        what = "partial aggregates, not records" if self._runs == "partials" else "records, by key"
        return f"{what}; into one partition unless [spark] conf says more"

    def _state(self, time: EventTime | None) -> str:
        if self._node.stateful is None:
            return "unknown until it runs: Spark's plan of it tells; if it keeps any, it is in Spark's checkpoint"
        if not self._node.stateful:
            return "none: it goes on where its last publish ended"
        kept = "in Spark's checkpoint"
        if (topic := self._entry.config.get("state_topic") if self._entry else None) is not None:
            kept += f", and in {topic} by the same publish: a lost checkpoint is made again from there"
        return f"{kept}, until time has passed" if time is not None else kept

    def _writes(self) -> str:
        targets = ", ".join(self._node.targets)
        if self._ref is None:
            return targets
        # A codec of the processor's own tells how it reads; what it makes of that is bytes.
        own = spec(ProcessorSpec, self._node.plugin).codecs is not None
        written = self._ref.output or (None if own else self._ref.input)
        return (
            f"{targets}, encoded as {spec(FormatSpec, written.plugin).name}; unchanged bytes as they are"
            if written
            else f"{targets}, as bytes"
        )

    def _inboxes(self) -> list[str]:
        return [
            f"{name} is an inbox on disk; the task {TABLE_PREFIX}{name} empties it into {system}"
            for name in self._node.targets
            if (system := self._graph.topics[name].table)
        ]

    def _published(self) -> str:
        if self._runs == "table":
            return "the source ends and dead letters, in one journal entry"
        members = (
            self._chains.members(self._chains.head(self._node.name)) if self._runs == "hosted" else [self._node.name]
        )
        topics = [topic for name in members for topic in self._graph.processors[name].targets]
        whose = f" of {members[0]} and the positions of {', '.join(members[1:])}" if len(members) > 1 else ""
        return f"{', '.join(topics)}, the dead letters and the source ends{whose}, in one journal entry"


def _closes(time: EventTime) -> str:
    if not time.field:
        basis = "arrival (ts_ms): with the clock, also when no records come"
    elif time.idle_ms is not None:
        basis = f"the field {time.field}: with later records, or {_seconds(time.idle_ms)} after the last one"
    else:
        basis = f"the field {time.field}: with later records only"
    return f"by {basis}; {_seconds(time.watermark_ms)} of lateness is waited for, later records are {_late(time)}"


def _late(time: EventTime) -> str:
    return "dead letters" if time.late == "dead_letter" else "counted"


def _seconds(ms: int) -> str:
    return f"{ms / 1000:g} s"


def _kind(name: str) -> str:
    return "(by its first records)" if name == "auto" else name
