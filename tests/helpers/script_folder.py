"""A folder of scripts, and their plans."""

from __future__ import annotations

from pathlib import Path

from gauss.dbstates.adapters.psql import Psql
from gauss.dbstates.planning.plan import Plan, Step


class ScriptFolder:
    """Files by name; planned with the folder as working directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, **scripts: str) -> ScriptFolder:
        """Writes SQL files: `main="SELECT 1"` is main.sql."""
        for name, text in scripts.items():
            (self.root / f"{name}.sql").write_bytes(text.encode())
        return self

    def plan(self, *args: str, **env: str) -> Plan:
        return Psql().plan(args or ("-f", "main.sql"), self.root, env)

    def step(self, *args: str, **env: str) -> Step:
        (found,) = self.plan(*args, **env).steps
        return found

    def key(self, text: str, *args: str, **env: str) -> str:
        """The content of a script that is one step."""
        return self.write(main=text).step(*args, **env).content

    def marks(self, text: str, *args: str) -> list[str]:
        return [mark.reason for step in self.write(main=text).plan(*args).steps for mark in step.marks]

    def titles(self, *args: str) -> list[str]:
        return [step.title for step in self.plan(*args).steps]
