"""Projects of alembic, a step for each revision.

A step's key has the syntax tree of its revision file and of every other Python file that alembic would run: env.py,
what lies beside it, and what those import from the project. It has the settings of alembic.ini except for the
address, the `-x` arguments, the variables of the environment that the files read, the files that they name, and the
versions of the packages.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gauss.dbstates.adapters import alembic_runner
from gauss.dbstates.adapters.alembic_revisions import Revisions
from gauss.dbstates.adapters.python_source import PythonSource, local_files, read
from gauss.dbstates.planning.content import Content
from gauss.dbstates.planning.files import Files
from gauss.dbstates.planning.plan import Command, Connection, Plan, Step, digest
from gauss.dbstates.planning.programs import program_of, stamps
from gauss.dbstates.planning.steps import KEPT, SETTINGS
from gauss.model.errors import ConfigError

_NOT_RUN = re.compile(r"README.*|.*\.mako|.*\.pyc|\..*")
_HINT = "pip install alembic in the environment of the project"
_HERE = "path of the ini file"


class Alembic:
    """Applies every revision in a process of its own."""

    kind = "alembic"

    def __init__(self, program: str = "alembic") -> None:
        self._program = program

    def check(self, env: Mapping[str, str]) -> None:
        program_of(self._program, env, _HINT)

    def plan(self, args: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Plan:
        options = _Arguments().parse_args(list(args))
        project = _Project(cwd.resolve(), options, env)
        versions = _versions(_interpreter(self._program, env))
        steps: list[Step] = []
        for revision in project.revisions.up_to(options.target):
            content = project.content(revision)
            content.add("tool", versions)
            for line in versions.splitlines():
                content.name("tool", line.partition(" ")[0], line)
            kept = {*KEPT, *SETTINGS, *project.environment}
            steps.append(
                Step(
                    number=len(steps) + 1,
                    title=project.revisions.files[revision].path.name,
                    command=(*project.command, revision),
                    stdin=None,
                    content=digest("alembic", *content.parts),
                    inputs=content.inputs({}),
                    ingredients=content.ingredients(),
                    marks=tuple(content.marks),
                    cwd=str(cwd.resolve()),
                    env=tuple((name, value) for name, value in sorted(env.items()) if name in kept),
                )
            )
        return Plan(self.kind, tuple(steps))

    def run_command(self, step: Step, connection: Connection) -> Command:
        argv = (str(_interpreter(self._program, dict(step.env))), str(Path(alembic_runner.__file__)), *step.command)
        return Command(argv, dict(step.env) | connection.environment(), None, Path(step.cwd))


class _Arguments(argparse.ArgumentParser):
    """The arguments of alembic that a plan may have."""

    def __init__(self) -> None:
        super().__init__(prog="alembic", add_help=False, allow_abbrev=False)
        self.add_argument("-c", "--config", default="alembic.ini")
        self.add_argument("-n", "--name", default="alembic")
        self.add_argument("-x", action="append", default=[])
        self.add_argument("command", nargs="?", default="upgrade", choices=["upgrade"])
        self.add_argument("target", nargs="?", default="head")

    def error(self, message: str) -> NoReturn:
        raise ConfigError(
            f"arguments of alembic: {message}", hint="expected [-c FILE] [-n NAME] [-x KEY=VALUE] [upgrade REVISION]"
        )


class _Project:
    """The files of one project."""

    def __init__(self, cwd: Path, options: argparse.Namespace, env: Mapping[str, str]) -> None:
        self._cwd, self._options, self._env = cwd, options, env
        self._files = Files(cwd)
        extra = [each for value in options.x for each in ("-x", value)]
        self.command: tuple[str, ...] = ("--config", options.config, "--name", options.name, *extra)
        self._settings = self._read_settings(cwd / options.config)
        location = self._folder(self._settings.get("script_location", ""))
        self._folders = self._search_path(location)
        self._shared, revisions = self._sources(location)
        self.revisions = Revisions(revisions)
        self.environment = {each for source in [*self._shared, *revisions] for each in source.environment}

    def content(self, revision: str) -> Content:
        """What a step depends on."""
        content, own = Content(), self.revisions.files[revision]
        self._add(content, own)
        for each in self._reached(own):
            self._add(content, each)
        for name, value in sorted(self._settings.items()):
            if name not in ("sqlalchemy.url", "here"):
                content.add("setting", name, value.replace(str(self._cwd), _HERE))
                content.name("setting", name, value.replace(str(self._cwd), _HERE))
        for value in self._options.x:
            content.add("flag", value)
            content.name("flag", f"-x {value.partition('=')[0]}", value)
        for name in sorted({*self.environment, *(each for each in SETTINGS if each in self._env)}):
            content.add("environment", name, self._env.get(name, "\0"))
            content.name("environment", name, self._env.get(name))
        return content

    def _add(self, content: Content, source: PythonSource) -> None:
        label = self._files.label(source.path)
        content.add("python", source.digest)
        content.source(label, 1, source.digest)
        content.data_input(self._files.other(source.path, label, lambda _: source.digest))
        for reason, line in source.marks:
            content.mark(reason, label, line)
        for text in sorted(source.strings):
            for folder in (self._cwd, source.path.parent):
                if 0 < len(text) < 1024 and "\0" not in text and "\n" not in text and (folder / text).is_file():
                    content.data(self._files.label(folder / text), self._files.other(folder / text, label))

    def _reached(self, own: PythonSource) -> list[PythonSource]:
        """The other files that run with a revision: those of every step, and what it imports."""
        found = {each.path: each for each in self._shared}
        queue = [own, *self._shared]
        while queue:
            for file in local_files(queue.pop(), self._folders):
                if file not in found and file != own.path:
                    found[file] = self._read(file)
                    queue.append(found[file])
        return [found[path] for path in sorted(found)]

    def _read_settings(self, ini: Path) -> dict[str, str]:
        text = self._files.text(ini, "alembic").decode("utf-8", "surrogateescape")
        parser = configparser.ConfigParser({"here": str(ini.parent)})
        try:
            parser.read_string(text, str(ini))
            return {name: parser.get(self._options.name, name) for name in parser.options(self._options.name)}
        except configparser.Error as error:
            raise ConfigError(f"{ini}: {error.message}", hint="see the documentation of alembic.ini") from None

    def _folder(self, value: str) -> Path:
        if not value or ":" in value:
            raise ConfigError(
                f"{self._options.config}: expected script_location as a folder, found {value!r}",
                hint="a folder inside of an installed package has no content that can be watched",
            )
        found = self._cwd / value
        if not (found / "env.py").is_file():
            raise ConfigError(f"{self._options.config}: expected env.py in script_location {found}, found none")
        return found.resolve()

    def _search_path(self, location: Path) -> list[Path]:
        added = re.split(r"[\s,:;]+", self._settings.get("prepend_sys_path", "."))
        return [*(Path(os.path.normpath(self._cwd / each)) for each in added if each), location]

    def _sources(self, location: Path) -> tuple[list[PythonSource], list[PythonSource]]:
        """The files that every step runs, and the revisions."""
        given = self._settings.get("version_locations")
        places = re.split(r"[\s,;]+|:(?!/)", given) if given else [str(location / "versions")]
        folders = [Path(os.path.normpath(self._cwd / each)) for each in places if each]
        shared, revisions = list[PythonSource](), list[PythonSource]()
        for folder in dict.fromkeys([location, *folders]):
            for file in sorted(folder.rglob("*")):
                if not file.is_file() or "__pycache__" in file.parts or _NOT_RUN.fullmatch(file.name):
                    continue
                source = self._read(file)
                known = revisions if "revision" in source.constants else shared
                if all(each.path != source.path for each in known):
                    known.append(source)
        if not revisions:
            raise ConfigError(
                f"no revisions in {', '.join(map(str, folders))}", hint="alembic revision makes the first"
            )
        return shared, revisions

    def _read(self, file: Path) -> PythonSource:
        text = self._files.text(file, "alembic")
        return read(file, text) if file.suffix == ".py" else PythonSource(file, {}, digest(text))


def _interpreter(program: str, env: Mapping[str, str]) -> Path:
    """The Python that runs a program, from its first lines."""
    found = program_of(program, env, _HINT)
    head = found.read_bytes()[:1024].decode("utf-8", "replace")
    match = re.match(r"#!\s*(/\S*python\S*)\s*\n", head) or re.match(
        r"#!/bin/sh\n'''exec' [\"']?(/[^\"'\n]*?)[\"']? ", head
    )
    if match is None:
        raise ConfigError(f"{found}: expected the path of a Python in its first line, found {head.splitlines()[:1]}")
    return Path(match[1])


@dataclass(frozen=True)
class _Versions:
    """Versions of packages, as long as the folders that they were found in are the same."""

    text: str
    folders: tuple[Path, ...]
    seen: tuple[object, ...]


_known: dict[Path, _Versions] = {}
"""By the Python that has the packages."""


def _versions(python: Path) -> str:
    known = _known.get(python)
    if known is None or stamps(known.folders) != known.seen:
        _known[python] = known = _find_versions(python)
    return known.text


def _find_versions(python: Path) -> _Versions:
    argv = [str(python), str(Path(alembic_runner.__file__)), "--versions"]
    env = {"PATH": os.defpath}  # not the engine's, which may name other packages
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=env)
    if done.returncode:
        raise ConfigError(f"{argv[0]} can't say the version of alembic: {done.stderr.strip()[-200:]}")
    text, _, told = done.stdout.partition("\n\n")
    # A package that is installed, upgraded or removed changes the folder that it is in.
    folders = (python, python.resolve(), *map(Path, told.splitlines()))
    return _Versions(f"{text}\n", folders, stamps(folders))
