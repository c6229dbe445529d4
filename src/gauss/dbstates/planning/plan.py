"""A plan: the steps that lead to a database state, each with everything that its key depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

PLANNER_VERSION = 2
"""A part of every key. Raised whenever the same scripts get other content or other steps."""

ALL_EXTENSIONS = "*"
"""The name of an `extension` ingredient of a step that may create any extension."""

Kind = Literal[
    "file", "inline", "variable", "flag", "setting", "environment", "data_file", "server", "extension", "tool"
]


@dataclass(frozen=True)
class Input:
    """A file that a step depends on."""

    path: str
    """Absolute, without symbolic links."""
    sha256: str
    relevant_hash: str
    """Hash of an SQL file without comments and insignificant whitespace; of a data file, its `sha256`."""


@dataclass(frozen=True)
class Ingredient:
    """One part of a step's content, by which a miss is explained."""

    kind: Kind
    name: str
    """A path relative to the working directory, the name of a variable, …"""
    digest: str
    line: int | None = None
    """The first line that the digest covers."""


@dataclass(frozen=True)
class Mark:
    """What can give another result when a step runs again."""

    reason: str
    path: str
    line: int


@dataclass(frozen=True)
class Step:
    """One execution of a script or a part of one, after which there is a state."""

    number: int
    title: str
    command: tuple[str, ...]
    """The arguments for the tool; the adapter adds the connection."""
    stdin: bytes | None
    """The text of a step that is a part of a file."""
    content: str
    """Hash of everything that can change the result."""
    inputs: tuple[Input, ...]
    ingredients: tuple[Ingredient, ...]
    marks: tuple[Mark, ...]
    cwd: str = "/"
    """The working directory of the tool."""
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The variables of the environment that the tool gets; they may be secrets, so they are never stored."""


@dataclass(frozen=True)
class Plan:
    """The steps of a preparation, in order."""

    kind: str
    steps: tuple[Step, ...]

    def with_server(self, settings: Mapping[str, str], extensions: Mapping[str, str]) -> Plan:
        """The plan for a server: its settings are a part of the first step's content, the versions of its extensions
        (name to default version) of that of the steps that create them."""
        return replace(
            self,
            steps=tuple(
                _with_server(step, settings if index == 0 else {}, extensions) for index, step in enumerate(self.steps)
            ),
        )


@dataclass(frozen=True)
class Connection:
    """The server that a step runs on. The password is in the passfile."""

    host: str
    """A host name or address, or the absolute path of the folder with the server's socket."""
    port: int
    user: str
    database: str
    passfile: Path

    def environment(self) -> dict[str, str]:
        """Of a program that uses libpq."""
        return {
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGDATABASE": self.database,
            "PGPASSFILE": str(self.passfile),
        }


@dataclass(frozen=True)
class Command:
    """How to start the tool of a step."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    """The whole environment of the process."""
    stdin: bytes | None
    cwd: Path


class Adapter(Protocol):
    """A system of scripts: what their steps are and how one is run."""

    kind: str

    def plan(self, args: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Plan:
        """The steps for the arguments; raises ConfigError with file and line."""

    def run_command(self, step: Step, connection: Connection) -> Command: ...

    def check(self, env: Mapping[str, str]) -> None:
        """Raises ConfigError unless its tool is on the path."""


def digest(*parts: bytes | str) -> str:
    """SHA-256 of a list of parts, as 64 hexadecimal digits; no two lists are the same bytes."""
    found = [part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part for part in parts]
    lengths = ",".join(map(str, map(len, found)))
    return hashlib.sha256(b"%b:%b" % (lengths.encode(), b"".join(found))).hexdigest()


def state_id(kind: str, parent: str, content: str, engine_version: str) -> str:
    """The id of the state that a step with this content makes of the parent state: 64 hexadecimal digits."""
    return digest("state", str(PLANNER_VERSION), kind, parent, content, engine_version)


def _with_server(step: Step, settings: Mapping[str, str], extensions: Mapping[str, str]) -> Step:
    added = [Ingredient("setting", name, digest(value)) for name, value in sorted(settings.items())]
    kept = []
    for each in step.ingredients:
        if each.kind != "extension":
            kept.append(each)
        elif each.name == ALL_EXTENSIONS:
            added += [Ingredient("extension", name, digest(version)) for name, version in sorted(extensions.items())]
        else:
            added.append(replace(each, digest=digest(extensions.get(each.name, ""))))
    if not added:
        return step
    parts = [part for each in added for part in (each.kind, each.name, each.digest)]
    return replace(step, content=digest("server", step.content, *parts), ingredients=(*kept, *added))
