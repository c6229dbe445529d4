"""chDB connections for requests: a new one for each, or that of a session. Only the owner process imports this."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chdb

from gauss.clients.clickhouse.quote import identifier, literal

DEFAULT_SESSION_SECONDS = 60.0
_CODE = re.compile(r"Code: (\d+)\. DB::Exception")


class EngineError(Exception):
    """An error of ClickHouse: its code and message."""

    def __init__(self, text: str, code: int = 0) -> None:
        found = _CODE.search(text)
        self.code = int(found[1]) if found else code or 1002
        self.text = text[found.start() :] if found else f"Code: {self.code}. DB::Exception: {text}"
        super().__init__(self.text)


@contextmanager
def engine_errors() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # the errors of chdb are RuntimeErrors
        raise EngineError(str(error)) from None


@dataclass
class Session:
    """A connection for several requests. The settings of a request are reverted before the next one."""

    connection: Any
    lock: threading.Lock = field(default_factory=threading.Lock)
    expires: float = 0.0
    applied: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    """The statement that reverts each applied setting."""

    def apply(self, wanted: dict[str, str]) -> None:
        """Applies the settings of one request, including `database`."""
        for name in [name for name in self.applied if name not in wanted]:
            self.run(self.before[name])
            del self.applied[name]
        for name, value in wanted.items():
            if self.applied.get(name) != value:
                if name not in self.applied:
                    self.before[name] = self._undo(name)
                self.run(f"USE {identifier(value)}" if name == "database" else f"SET {name} = {literal(value)}")
                self.applied[name] = value

    def _undo(self, name: str) -> str:
        if name == "database":
            return f"USE {identifier(self.run('SELECT currentDatabase()'))}"
        changed = self.run(f"SELECT value FROM system.settings WHERE name = {literal(name)} AND changed")
        return f"SET {name} = {literal(changed) if changed else 'DEFAULT'}"

    def run(self, query: str) -> str:
        with engine_errors():
            return bytes(self.connection.query(query, "TSVRaw").bytes()).decode().removesuffix("\n")


class ChdbEngine:
    """The open directory; its first connection keeps it open."""

    def __init__(self, directory: Path) -> None:
        self._path = str(directory)
        self._keep = chdb.connect(self._path)
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self.version, self.timezone = Session(self._keep).run("SELECT version(), timezone()").split("\t")

    @contextmanager
    def connection(self, settings: dict[str, str], session: str, seconds: float, *, check: bool) -> Iterator[Any]:
        """A connection with the request's settings."""
        if not session:
            fresh = Session(chdb.connect(self._path))
            try:
                # All in one statement: each costs half a millisecond, and an insert has ten settings.
                if given := ", ".join(f"{name} = {literal(v)}" for name, v in settings.items() if name != "database"):
                    fresh.run(f"SET {given}")
                if "database" in settings:
                    fresh.run(f"USE {identifier(settings['database'])}")
                yield fresh.connection
            finally:
                fresh.connection.close()
            return
        held = self._session(session, check)
        if not held.lock.acquire(blocking=False):
            raise EngineError(f"Session {session} is locked by a concurrent client. (SESSION_IS_LOCKED)", 373)
        try:
            held.apply(settings)
            yield held.connection
        finally:
            held.expires = time.monotonic() + seconds
            held.lock.release()

    def _session(self, name: str, check: bool) -> Session:
        with self._lock:
            self._sweep()
            if name not in self._sessions:
                if check:
                    raise EngineError(f"Session {name} not found. (SESSION_NOT_FOUND)", 372)
                self._sessions[name] = Session(chdb.connect(self._path))
            found = self._sessions[name]
            found.expires = max(found.expires, time.monotonic() + DEFAULT_SESSION_SECONDS)
            return found

    def _sweep(self) -> None:
        now = time.monotonic()
        for name, session in list(self._sessions.items()):
            if session.expires < now and session.lock.acquire(blocking=False):
                del self._sessions[name]
                session.connection.close()

    def end_session(self, name: str) -> None:
        with self._lock:
            session = self._sessions.pop(name, None)
        if session:
            session.connection.close()

    def only_reads(self, query: str) -> bool:
        """Whether a statement changes nothing. True for one that cannot be parsed, since it will fail anyway."""
        try:
            found = self._keep._conn.classify_query(query)
        except RuntimeError:
            return True
        return str(found["query_class"]).rpartition(".")[2] != "MUTATING"

    def close(self) -> None:
        with self._lock:
            for session in self._sessions.values():
                session.connection.close()
            self._sessions.clear()
        self._keep.close()
