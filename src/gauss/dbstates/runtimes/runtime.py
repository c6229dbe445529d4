"""The interface of runtimes: what a server is made from, how it is started, found again and stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gauss.dbstates.planning.plan import Command, Connection

USER = DATABASE = "postgres"
HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Build:
    """A Postgres from which servers are made."""

    engine: str
    version: str
    """Exact version of the server, such as 18.4."""
    base: str
    """Id of the state before the first step: the digest of all that makes an empty database what it is."""
    image: str
    """What a job may name to get this build again."""
    runtime: str
    place: str
    """The folder of the programs, or the image with its digest."""
    extensions: Mapping[str, str] = field(default_factory=dict)
    """Default versions of the extensions that can be created."""
    user: str = ""
    """Of an image: the `uid:gid` of its server."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The parameters of servers that are a part of the keys of a job."""


@dataclass(frozen=True)
class Launch:
    """How one server is started."""

    instance: str
    data: Path
    log: Path
    settings: Mapping[str, str]
    password: str = field(repr=False)
    port: int = 0
    """The port that it had before, which it gets again if that is free."""


class Server(Protocol):
    """A running server."""

    runtime_id: str
    """By which the next engine finds it."""
    socket: Path
    """Folder of its Unix socket."""
    port: int

    def died(self) -> str:
        """Why it is gone; empty while it runs."""

    def stop(self) -> None:
        """A fast shutdown, after which its directory is that of a server that ended in good order."""

    def kill(self) -> None:
        """Ends it at once. Idempotent."""


class Runtime(Protocol):
    """A way to run servers."""

    name: str

    def resolve(self, image: str) -> Build:
        """The build that a name stands for."""

    def has_digest(self, image: str) -> bool:
        """Whether the name can only ever mean one build."""

    def create_base(self, build: Build, data: Path) -> None:
        """Fills an empty directory with a new cluster."""

    def start(self, build: Build, launch: Launch) -> Server:
        """Starts a server and waits until it accepts connections with the password."""

    def resume(self, build: Build, launch: Launch, server: Server) -> Server:
        """Starts a stopped server again, on the same port."""

    def attach(self, instance: str, runtime_id: str, port: int) -> Server | None:
        """A server that an earlier engine started; None if it does not run any more."""

    def tool(self, build: Build, server: Server, command: Command, files: Iterable[Path]) -> ToolCall:
        """How to start a tool for a server; `files` are those that it reads."""

    def connection(self, server: Server, passfile: Path, *, network: bool) -> Connection:
        """What a tool connects to; `network`: it can't use a Unix socket."""

    def end_leftovers(self, kept: set[str]) -> list[str]:
        """Ends every process and container of this store whose runtime id is not kept; returns what it ended."""

    def forget(self, instance: str) -> None:
        """Removes what the runtime keeps outside the store for an instance whose server has ended."""

    def forget_others(self, kept: set[str]) -> None:
        """The same for all instances but those kept."""


@dataclass(frozen=True)
class ToolCall:
    """A program to start, such as psql."""

    argv: list[str]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    stdin: bytes | None = field(default=None, repr=False)
    ended: Callable[[], None] = lambda: None
    """Called after its end, whatever that was."""
