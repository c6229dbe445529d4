"""Chains: an epoch of several processors at once. The topics between them have no other writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from gauss.clients.engine.positions import At, Ends
from gauss.clients.engine.task_messages import Member
from gauss.contracts.chunk import Chunk
from gauss.contracts.letter import Letter
from gauss.model.errors import ProtocolError
from gauss.model.names import retrying_processor
from gauss.stream.engine.delivery.epochs import rows_between
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.topics.topic import Publishable, Topic


def at_end(topic: Topic, at: At) -> bool:
    """Whether a reader at this position has read everything."""
    return topic.version() == (at.off if at.inc == topic.inc else topic.floor())


@dataclass
class Chained:
    """The members of one publish: the ends of their topics before it, and their counters."""

    members: dict[str, Member] = field(default_factory=dict)
    running: dict[str, ProcessorRun] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    """Visible end before the publish, by the topic that a member reads."""

    def add(self, member: Member, running: ProcessorRun, topic: Topic, at: At) -> None:
        """Adds a member, which must have read its topic to the end."""
        if not at_end(topic, at):
            raise _stranger(member.processor, topic.name)
        self.members[member.processor], self.running[member.processor] = member, running
        self.ends[topic.name] = topic.version()

    def check(self, topic: Publishable) -> None:
        """Checks a topic again. Called with its lock held, before anything is appended."""
        if topic.version() != self.ends.get(topic.name, topic.version()):
            reader = next(each.name for each in self.running.values() if each.sources[0] == topic.name)
            raise _stranger(reader, topic.name)

    def check_fit(self, topic: str, unfit: int) -> None:
        """Raises if a topic can't store records that the next member has already processed."""
        if unfit and topic in self.ends:
            raise ProtocolError(f'topic "{topic}" cannot store {unfit} records that a chain has already read from it')

    def moved(self, ended: Ends, ends: Ends) -> dict[str, Ends]:
        """The position of each member after the publish."""
        return {
            name: {source: ended.get(source) or ends[source] for source in running.sources}
            for name, running in self.running.items()
        }

    def writer(self, topic: str, head: str) -> str:
        """The member that writes a topic."""
        return next((name for name, member in self.members.items() if topic in member.targets), head)

    def of_head(self, ends: Ends) -> Ends:
        """The sources of the head itself."""
        retry_topics = {running.sources[1] for running in self.running.values()}
        return {name: at for name, at in ends.items() if name not in retry_topics}

    def taken(self, begin: Ends, ends: Ends, ended: Ends) -> dict[str, int]:
        """Number of records that each member has read."""
        found = {}
        for name, running in self.running.items():
            source, retry_topic = running.sources
            found[name] = ended[source].off - self.ends[source] + rows_between(begin, {retry_topic: ends[retry_topic]})
        return found

    def pass_on(self, ended: Ends) -> None:
        """Moves the members' readers over the published records, which may then be removed."""
        for running in self.running.values():
            running.readers[running.sources[0]].move(ended[running.sources[0]].off)

    def letter(self, head: str, letter: Letter) -> Letter:
        """A staged letter under the name of the member that rejected the record."""
        named = retrying_processor(letter.topic) or letter.processor
        return msgspec.structs.replace(letter, processor=named if named in self.members else head)


def fill_offsets(
    staged: Mapping[str, list[tuple[str, list[Chunk]]]], letters: Iterable[Letter], topics: Mapping[str, Topic]
) -> None:
    """Sets the offsets of letters whose records are published only now."""
    relative = [letter for letter in letters if letter.from_stage is not msgspec.UNSET]
    first: dict[str, tuple[int, int]] = {}
    for name, stages in staged.items() if relative else ():
        end = topics[name].version()
        for stage, chunks in stages:
            first[stage] = topics[name].inc, end
            end += sum(chunk.count for chunk in chunks)
    for letter in relative:
        assert isinstance(letter.from_stage, str)
        letter.inc, start = first[letter.from_stage]
        letter.offset += start
        letter.from_stage = msgspec.UNSET


def decoded_letters(chunks: list[Chunk]) -> list[Letter]:
    """Letters that tasks staged as records."""
    return [msgspec.json.decode(data, type=Letter) for chunk in chunks for data in chunk.data().to_pylist()]


def _stranger(member: str, topic: str) -> ProtocolError:
    return ProtocolError(
        f'processor "{member}" can\'t be part of a chain: topic "{topic}" has another writer',
        hint="it continues in its own task",
    )
