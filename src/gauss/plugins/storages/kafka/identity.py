"""`kafka.json` of a topic's folder: which topic of Kafka it belongs to, and the incarnation that stands for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gauss.model.errors import StorageError
from gauss.model.files import PRIVATE_FOLDER, read_json, write_private

NAME = "kafka.json"
_KEPT = 16


@dataclass(frozen=True)
class Identity:
    """A topic of Kafka as Gauss knows it. Kafka gives each topic an id, another one if it is deleted and made anew."""

    topic: str
    topic_id: str
    inc: int
    writer: str = ""
    """Names this folder to other runs that write to the topic."""
    indexed: bool = False
    """Whether the order of its records is in a file."""
    history: tuple[tuple[str, int], ...] = ()
    """Topic ids and incarnations before, the newest first."""


def stored(folder: Path) -> Identity | None:
    path = folder / NAME
    if not path.exists():
        return None
    found = read_json(path)
    try:
        return _identity(found or {})
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"{path} is damaged: {error}",
            hint="delete it: the topic then starts a new incarnation, whose readers begin anew",
        ) from error


def _identity(found: dict[str, Any]) -> Identity:
    history = tuple((str(topic_id), int(inc)) for topic_id, inc in found["history"])
    topic, topic_id = str(found["topic"]), str(found["topic_id"])
    return Identity(topic, topic_id, int(found["inc"]), str(found["writer"]), bool(found["indexed"]), history)


def claim(folder: Path, topic: str, topic_id: str, incarnation: Callable[[int], int]) -> Identity:
    """The incarnation of a topic: the stored one, or a new one if Kafka's topic is another."""
    before = stored(folder)
    if before is not None and (before.topic_id, before.topic) == (topic_id, topic):
        inc = incarnation(before.inc)
        return before if inc == before.inc else _keep(folder, replace(before, inc=inc, indexed=False))
    return renewed(folder, before, topic, topic_id, incarnation)


def renewed(
    folder: Path, before: Identity | None, topic: str, topic_id: str, incarnation: Callable[[int], int]
) -> Identity:
    """A new incarnation."""
    history = () if before is None else ((before.topic_id, before.inc), *before.history)[:_KEPT]
    writer = uuid.uuid4().hex[:16] if before is None else before.writer
    return _keep(folder, Identity(topic, topic_id, incarnation(0), writer, history=history))


def note_indexed(folder: Path, identity: Identity) -> Identity:
    return identity if identity.indexed else _keep(folder, replace(identity, indexed=True))


def _keep(folder: Path, identity: Identity) -> Identity:
    folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    write_private(folder / NAME, asdict(identity), durable=True)
    return identity
