"""A description of a pipeline's physical plan, derived from its config: what runs where, and what it costs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gauss.config.spec import Pipeline
from gauss.contracts.format import FormatSpec
from gauss.contracts.processor import Partials, ProcessorSpec, Role, Where
from gauss.contracts.time import EventTime
from gauss.model.errors import ConfigError
from gauss.model.names import inserted_topic, is_table_processor, table_processor
from gauss.model.units import counted, human_bytes
from gauss.registry import spec
from gauss.stream.driver.planning.chains import Chains, Link, find_chains
from gauss.stream.driver.planning.reads import BLOCK_ROWS, STATEFUL_MS
from gauss.stream.driver.planning.refs import TransformRef, transform_ref
from gauss.stream.driver.planning.shared_reads import find_teams, least_slots, why_alone
from gauss.stream.graph import Graph, ProcessorNode
from gauss.stream.guarantee import guarantees

RUNS = {
    "edge": "in the engine: it frames the bytes of connections; no Spark",
    "pump": "in the engine: it copies chunks of bytes from topic to topic; no Spark",
    "hosted": "hosted: a standing Spark task reads, decodes, transforms, encodes and publishes, epoch by epoch",
    "columns": "streaming query: the reader decodes, Spark's operators transform, the writer encodes",
    "partials": "streaming query: the readers pre-aggregate, Spark's operators merge their results",
    "table": "table insert: a standing Spark task reads ranges of the inbox, decodes, maps and inserts them",
}

STANDING = ("hosted", "table")
SHARED = "shared with processors that read the same topic and format; one that lags, fails or is slow leaves"


@dataclass
class Explained:
    """One processor's plan."""

    processor: str
    plugin: str
    query: str
    """The query or standing task that runs it, by the name of its first processor; empty if there is none."""
    members: list[str]
    """All processors of that query or task."""
    runs: str
    """A key of RUNS."""
    plan: list[tuple[str, str]] = field(default_factory=list)
    """The steps in order: a keyword and its description."""
    borders: list[dict[str, str]] = field(default_factory=list)
    """The boundaries between its query and other transforms: topic, other processor and reason."""
    guarantees: dict[str, str] = field(default_factory=dict)
    """The delivery guarantee of each end that it feeds."""

    def lines(self) -> list[tuple[str, str]]:
        """The lines to display: a keyword and its description."""
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
    if is_table_processor(node.name):
        return "table"
    found = spec(ProcessorSpec, node.plugin)
    if found.hosted:
        return "hosted"
    return "columns" if found.partials is Partials.NONE else "partials"


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
    """A sentence about the Spark slots that standing tasks occupy."""
    if pipeline.spark.master.startswith("local"):
        return "on this machine every task has a slot"
    held = counted(least_slots(pipeline), "slot")
    return f"standing tasks occupy {held} of {pipeline.spark.master} while they run, and more while they lag"


def planned(pipeline: Pipeline, graph: Graph) -> Graph:
    """The graph with `runs` and `query` of each processor."""
    chains = find_chains(pipeline, graph)
    nodes = {}
    for name, node in graph.processors.items():
        runs = how_it_runs(node)
        members = _members(pipeline, graph, chains, node, runs)
        nodes[name] = replace(node, runs=runs, query=members[0] if members else "")
    return replace(graph, processors=nodes)


def _members(pipeline: Pipeline, graph: Graph, chains: Chains, node: ProcessorNode, runs: str) -> list[str]:
    """All processors of a processor's query or task, in order."""
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
    """The processor and everything downstream of it."""
    found, waiting = {name}, list(graph.processors[name].targets)
    if is_table_processor(name):
        return {inserted_topic(name)}
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
    """The steps of one processor's plan."""

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
                f"{link.topic}, in the task of {link.writer} that writes it; replayed dead letters from a retry topic"
            )
        read = ", ".join(f"{reading.topic} by {reading.read}" for reading in self._node.sources)
        if self._runs in ("edge", "pump"):
            return read
        section = self._pipeline.spark
        if self._runs == "hosted":
            return (
                f"{read}: new records at once; under load, epochs of about {section.target_batch_ms} ms with at most"
                f" {section.max_batch_rows:,} records or {human_bytes(section.max_batch_bytes)}"
            )
        aim = f"of about {max(section.target_batch_ms, STATEFUL_MS if self._node.stateful else 0)} ms"
        if self._runs == "table":
            aim = "sized by flush_interval and insert_batch_size"
        return (
            f"{read}: batches {aim} with at most {section.max_batch_rows:,} records or "
            f"{human_bytes(section.max_batch_bytes)}, split into ranges of {BLOCK_ROWS:,} records, one task each"
        )

    def _table(self) -> list[tuple[str, str]]:
        topic = self._graph.topics[self._node.sources[0].topic]
        config = self._pipeline.topic(topic.name).storage_config
        named = config.get("format")
        found = [("decodes", f"format {named}, the fields that the schema map names" if named else "nothing")]
        place = f"the embedded {topic.table}" if topic.embedded else topic.table
        found.append(("inserts", f"into {place}, range by range; no range is inserted twice"))
        found += [("tasks", self._tasks()), ("shuffles", "none")]
        return found

    def _tasks(self) -> str:
        """The number of slots that it uses."""
        if self._entry is not None and self._entry.parallelism is not None:
            return counted(self._entry.parallelism, "slot")
        return "one slot; while it lags, up to one per core"

    def _work(self, ref: TransformRef) -> list[tuple[str, str]]:
        try:
            _, traits = ref.build()
        except ConfigError as error:
            raise ConfigError(f'processor "{self._node.name}": {error.message}', hint=error.hint) from error
        except RuntimeError:  # only Spark itself can tell what a query names
            decodes = "the fields that the query uses, in the reader"
            return [("decodes", decodes), ("shuffles", self._shuffles()), ("state", self._state(None))]
        shown = [f"{each.name} {_kind(each.field_type.name)}" for each in traits.fields]
        where = "in the task" if self._runs == "hosted" else "in the reader"
        plugin = spec(FormatSpec, ref.input.plugin).name if ref.input is not None else ""
        found = [
            ("decodes", f"{', '.join(shown)} from {plugin}, {where}" if shown else "nothing: bytes pass unchanged")
        ]
        if self._runs == "hosted" and self._node.name not in self._chains.inner():
            assert self._entry is not None
            alone = why_alone(self._graph, self._entry)
            found.append(("tasks", f"{self._tasks()}; {f'alone: {alone}' if alone else SHARED}"))
        if ref.table is not None:
            found.append(("looks up", f"rows of {ref.table.topic}, at the version with which the batch was planned"))
        plugin_spec = spec(ProcessorSpec, self._node.plugin)
        if plugin_spec.partials is Partials.RECORDS:
            found.append(("digests", "each key, in the reader; duplicates within a batch are dropped there"))
        elif plugin_spec.partials is Partials.GROUPS:
            found.append(
                (
                    "aggregates",
                    "in the reader, per key and window (or pane); only the partial results pass through the JVM",
                )
            )
        if slot_ms := plugin_spec.block_slot_ms(self._node.config):
            kept = f"blocks of records, each of {_seconds(slot_ms)}"
            found.append(("joins", f"{kept}; Spark brings matching blocks together, the writer's task finds the pairs"))
        found.append(("shuffles", "blocks, into one partition" if slot_ms else self._shuffles()))
        found.append(("state", self._state(traits.time)))
        if traits.time is not None:
            found.append(("closes", _closes(traits.time)))
        return found

    def _shuffles(self) -> str:
        if self._runs == "hosted":
            return "none"
        if self._node.stateful is None:
            return "where the query groups, sorts or joins; into one partition unless [spark] conf sets more"
        if not self._node.stateful:
            return "none"
        if self._node.plugin == "dedup":
            return "none: one task processes a batch, in order of arrival"
        what = "partial aggregates, not records" if self._runs == "partials" else "records, by key"
        return f"{what}; into one partition unless [spark] conf sets more"

    def _state(self, time: EventTime | None) -> str:
        if self._node.stateful is None:
            return "unknown until Spark has planned it; if there is any, it is in Spark's checkpoint"
        if not self._node.stateful:
            return "none: it resumes after its last published epoch"
        kept = "in Spark's checkpoint"
        if (topic := self._entry.config.get("state_topic") if self._entry else None) is not None:
            kept += f", and in {topic} by the same publish: a lost checkpoint is rebuilt from it"
        return f"{kept}, until the watermark has passed it" if time is not None else kept

    def _writes(self) -> str:
        targets = ", ".join(self._node.targets)
        if self._ref is None:
            return targets
        # A processor's own codec is for reading; its results are bytes.
        own = spec(ProcessorSpec, self._node.plugin).codecs is not None
        written = self._ref.output or (None if own else self._ref.input)
        return (
            f"{targets}, encoded as {spec(FormatSpec, written.plugin).name}; unchanged records keep their bytes"
            if written
            else f"{targets}, as bytes"
        )

    def _inboxes(self) -> list[str]:
        return [
            f"{name} is an inbox on disk; the task {table_processor(name)} inserts its records into {system}"
            for name in self._node.targets
            if (system := self._graph.topics[name].table)
        ]

    def _published(self) -> str:
        if self._runs == "table":
            return "the source positions and dead letters, in one journal entry"
        members = (
            self._chains.members(self._chains.head(self._node.name)) if self._runs == "hosted" else [self._node.name]
        )
        topics = [topic for name in members for topic in self._graph.processors[name].targets]
        outside = self._graph.shared(topics)
        topics = [topic for topic in topics if topic not in outside]
        whose = f" of {members[0]} and the positions of {', '.join(members[1:])}" if len(members) > 1 else ""
        before = f"{', '.join(outside)} by one transaction per task, then " if outside else ""
        local = f"{', '.join(topics)}, " if topics else ""
        return f"{before}{local}the dead letters and the source positions{whose}, in one journal entry"


def _closes(time: EventTime) -> str:
    if not time.field:
        basis = "arrival time (ts_ms), which advances with the clock even without records"
    elif time.idle_ms is not None:
        basis = f"the field {time.field}: by later records, or {_seconds(time.idle_ms)} after the last one"
    else:
        basis = f"the field {time.field}: by later records only"
    return f"by {basis}; {_seconds(time.watermark_ms)} of lateness is allowed, later records are {_late(time)}"


def _late(time: EventTime) -> str:
    return "dead letters" if time.late == "dead_letter" else "counted"


def _seconds(ms: int) -> str:
    return f"{ms / 1000:g} s"


def _kind(name: str) -> str:
    return "(inferred from its first records)" if name == "auto" else name
