"""The cache of states: which exist, what they were made of, how they are used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gauss.dbstates.planning.plan import Ingredient, Mark
from gauss.dbstates.store.metadata import Metadata, Row, now_ms
from gauss.model.errors import ConfigError, NotFound
from gauss.process.identity import boot_id

SHORTEST_PREFIX = 8
_SHOWN = (
    "id, kind, parent, base, engine, version, number, title, status, error, created_ms, used_ms, hits, bytes, "
    "exclusive_bytes"
)


@dataclass(frozen=True)
class StatePlace:
    """What a state is stored under, and what it comes from."""

    id: str
    kind: str
    parent: str
    base: str
    engine: str
    version: str
    number: int
    title: str


class States:
    """The registry of states. A state is `creating`, `ready` or `failed`; only ready ones are ever used."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def is_ready(self, state: str) -> bool:
        return self._metadata.value("SELECT 1 FROM states WHERE id = ? AND status = 'ready'", state) is not None

    def begin(self, place: StatePlace, job: str) -> None:
        """Notes that a state is being made, before anything is written."""
        now = now_ms()
        with self._metadata.transaction():
            self._metadata.execute("DELETE FROM states WHERE id = ?", place.id)
            self._metadata.insert(
                "states", **vars(place), status="creating", job=job, error="", boot=boot_id(), created_ms=now,
                used_ms=now, hits=0, bytes=None, exclusive_bytes=None,
            )  # fmt: skip

    def finish(self, state: str, ingredients: Sequence[Ingredient], marks: Sequence[Mark]) -> None:
        """Makes a completely written state usable."""
        with self._metadata.transaction():
            for position, each in enumerate(ingredients):
                self._metadata.insert("ingredients", state=state, position=position, **vars(each))
            for position, mark in enumerate(marks):
                self._metadata.insert("marks", state=state, position=position, **vars(mark))
            self._metadata.update("states", "id = ?", state, status="ready", used_ms=now_ms())

    def fail(self, state: str, why: str) -> None:
        """Marks a partial state, whatever is left of it."""
        self._metadata.update("states", "id = ? AND status = 'creating'", state, status="failed", error=why)

    def lose(self, state: str) -> None:
        """Marks a ready state whose files may be incomplete."""
        why = "the machine went down before it was on disk"
        self._metadata.update("states", "id = ?", state, status="failed", error=why, boot="")

    def hit(self, state: str) -> None:
        self._metadata.execute("UPDATE states SET hits = hits + 1, used_ms = ? WHERE id = ?", now_ms(), state)

    def remove(self, states: Sequence[str]) -> None:
        """Forgets all of them, or none if the engine is killed meanwhile."""
        with self._metadata.transaction():
            for state in states:
                self._metadata.execute("DELETE FROM states WHERE id = ?", state)

    def get(self, state: str) -> Row:
        found = self._metadata.row(f"SELECT {_SHOWN} FROM states WHERE id = ?", state)
        if found is None:
            raise NotFound(f"no state {state}", hint="gauss db states lists them")
        return found

    def all(self) -> list[Row]:
        return self._metadata.rows(f"SELECT {_SHOWN} FROM states ORDER BY created_ms, number, id")

    def children(self, state: str) -> list[Row]:
        return self._metadata.rows(f"SELECT {_SHOWN} FROM states WHERE parent = ? ORDER BY created_ms, id", state)

    def ingredients(self, state: str) -> list[Row]:
        query = "SELECT kind, name, digest, line FROM ingredients WHERE state = ? ORDER BY position"
        return self._metadata.rows(query, state)

    def marks(self, state: str) -> list[Row]:
        return self._metadata.rows("SELECT reason, path, line FROM marks WHERE state = ? ORDER BY position", state)

    def unfinished(self) -> list[Row]:
        """States that an engine was making when it ended."""
        return self._metadata.rows(f"SELECT {_SHOWN} FROM states WHERE status = 'creating'")

    def written_before(self, boot: str) -> list[Row]:
        """Ready states that were not known to be on disk when the machine went down."""
        return self._metadata.rows(f"SELECT {_SHOWN} FROM states WHERE status = 'ready' AND boot NOT IN ('', ?)", boot)

    def durable(self, states: Sequence[str]) -> None:
        """Notes that states are on disk for good."""
        with self._metadata.transaction():
            for state in states:
                self._metadata.update("states", "id = ?", state, boot="")

    def volatile(self) -> list[str]:
        return [row["id"] for row in self._metadata.rows("SELECT id FROM states WHERE status = 'ready' AND boot != ''")]

    def measured(self, state: str, total: int, exclusive: int) -> None:
        self._metadata.update("states", "id = ?", state, bytes=total, exclusive_bytes=exclusive)


def by_prefix(metadata: Metadata, table: str, prefix: str, length: int) -> str:
    """The id of a state, an instance or a job that begins like this. Raises NotFound or ConfigError."""
    what = table.removesuffix("s")
    if not prefix or prefix.strip("0123456789abcdef") or len(prefix) > length:
        raise NotFound(f"no {what} {prefix!r}", hint=f"expected {length} hexadecimal digits, or the first of them")
    if len(prefix) < SHORTEST_PREFIX:
        raise ConfigError(
            f"{what} {prefix!r} is too short", hint=f"give at least the first {SHORTEST_PREFIX} digits of the id"
        )
    found = metadata.rows(f"SELECT id FROM {table} WHERE id >= ? AND id < ? LIMIT 2", prefix, prefix + "g")
    if not found:
        lists = "GET /v1/prepare-jobs" if table == "jobs" else f"gauss db {table}"
        raise NotFound(f"no {what} {prefix}", hint=f"{lists} lists them")
    if len(found) > 1:
        raise ConfigError(f"more than one {what} begins with {prefix}", hint="give more digits of the id")
    return str(found[0]["id"])
