"""The state of psql while a script is followed, as far as it is known before the script runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from gauss.dbstates.planning.content import Content
from gauss.dbstates.planning.effects import Session
from gauss.dbstates.planning.files import Files
from gauss.dbstates.planning.variables import OF_CONNECTION, RESULTS, Unknown, Variables
from gauss.dbstates.planning.volatility import Volatility
from gauss.model.errors import ConfigError


class Uncut(Exception):
    """A script must run in one session: it reads what its earlier statements leave there."""


class State:
    """One psql."""

    def __init__(
        self, files: Files, variables: Variables, env: Mapping[str, str], cwd: Path, volatility: Volatility
    ) -> None:
        self.files, self.variables, self.volatility = files, variables, volatility
        self.env: dict[str, str] = dict(env)
        self.read_env: set[str] = set()
        """Variables of the environment that the script reads."""
        self.cwd: Path | None = cwd
        self.session = Session()
        self.content = Content()
        self.written: set[Path] = set()
        """Files that the script writes, so that their content is not known before it runs."""
        self.maybe = 0
        """How many branches are being followed of which it is not known whether they are taken."""
        self.earlier: frozenset[str] = frozenset()
        """Variables that the scripts of earlier steps have set."""
        self.cut = True
        """Whether the script may be cut into steps."""
        self.label, self.line = "", 0

    @property
    def where(self) -> str:
        """File and line of the statement or command that is being followed."""
        return f"{self.label}:{self.line}"

    def refuse(self, message: str, hint: str = "") -> NoReturn:
        raise ConfigError(f"{self.where}: {message}", hint=hint)

    def keep_whole(self) -> None:
        """Says that the script can't be cut into steps, before this command or after it."""
        if self.cut:
            raise Uncut
        self.session.leave("a command")

    def mark(self, reason: str) -> None:
        """Notes that the result may differ from run to run."""
        self.content.mark(reason, self.label, self.line)

    def note_variables(self, names: frozenset[str] | set[str]) -> None:
        """Notes the variables that a statement or command has read."""
        for name in sorted(names):
            if name in RESULTS:
                self.keep_whole()
            if name in OF_CONNECTION:
                self.mark(f":{name}")
            value = self.variables.get(name)
            if name in self.variables.given and name not in self.variables.assigned:
                self.content.name("variable", name, value if isinstance(value, bytes) else None)
            elif value is None and not name.isdecimal():
                self.content.name("variable", name, None)
                if name in self.earlier:
                    self.refuse(
                        f"variable {name} is set by \\set in a script before this one, which has its own psql",
                        f"give it as -v {name}=…, or include both scripts from one file",
                    )
        self.variables.read.clear()

    def path(self, value: bytes | Unknown | None, what: str, *, base: Path | None = None) -> Path:
        """The file that an argument names."""
        if value is None or value == b"":
            self.refuse(f"expected a file name after {what}")
        if isinstance(value, Unknown):
            self.refuse(
                f"the file name after {what} is only known while the script runs",
                "write it out, or give the variable by -v; the content of the file is a part of the state's key",
            )
        name = os.fsdecode(value)
        if name.startswith("~"):
            self.refuse(f"{what} {name}: ~ depends on the user that runs it", "write the path out")
        if Path(name).is_absolute():
            return self._plain(Path(name), what)
        if base is None:
            base = self.cwd
        if base is None:
            self.refuse(f"{what} {name}: the working directory is only known while the script runs", "use \\ir")
        return self._plain(base / name, what)

    def _plain(self, path: Path, what: str) -> Path:
        """The path as psql reads it, which removes `..` without following links."""
        normal = Path(os.path.normpath(path))
        if ".." in path.parts and os.path.realpath(normal) != os.path.realpath(path):
            self.refuse(f"{what} {path}: .. follows a symbolic link there", "write the path without ..")
        return normal

    def readable(self, path: Path, what: str) -> Path:
        """The path, unless the script itself writes the file."""
        if Path(os.path.realpath(path)) in self.written:
            self.refuse(
                f"{what} {self.files.label(path)}: the script itself writes this file, so its content is not known",
                "use \\gexec to execute the results of a query",
            )
        return path

    def write(self, value: bytes | Unknown | None, what: str) -> None:
        """Notes a file that the script writes."""
        if isinstance(value, bytes) and value and self.cwd is not None:
            self.written.add(Path(os.path.realpath(self.path(value, what))))

    def exists(self, path: Path) -> bool:
        """Whether the file must be read: in a branch that may not be taken a missing one is noted."""
        if self.maybe and not path.is_file():
            self.content.name("file", self.files.label(path), None)
            self.content.add("missing", str(path))
            return False
        return True
