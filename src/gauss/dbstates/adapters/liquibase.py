"""Changelogs of liquibase, a step for each `--changelog-file`.

A step's key has the bytes of the changelog and of every file that it names, directly or not: include, includeAll,
sqlFile, loadData and others; comments count, since a formatted SQL changelog keeps its change sets in them. It also
has the arguments, the defaults file except for the connection, the LIQUIBASE_ variables of the environment, and the
version.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from gauss.dbstates.adapters.changelogs import Changelogs
from gauss.dbstates.planning.content import Content
from gauss.dbstates.planning.files import Files
from gauss.dbstates.planning.lexer import words
from gauss.dbstates.planning.plan import Command, Connection, Kind, Plan, Step, digest
from gauss.dbstates.planning.programs import program_of, search_path, stamps
from gauss.dbstates.planning.steps import KEPT
from gauss.model.errors import ConfigError

_CONNECTION = words("url username password driver reference-url reference-username reference-password")
_DEFAULTS = "liquibase.properties"
_HINT = "expected [--changelog-file=FILE …] [--search-path=FOLDERS] [--contexts=…] [--labels=…] [-Dname=value] [update]"


class Liquibase:
    """Runs `liquibase update` for each changelog."""

    kind = "liquibase"

    def __init__(self, program: str = "liquibase") -> None:
        self._program = program

    def check(self, env: Mapping[str, str]) -> None:
        program_of(self._program, env, "install liquibase with the driver of Postgres")

    def plan(self, args: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Plan:
        cwd = cwd.resolve()
        files = Files(cwd)
        options, parameters, changelogs = _read(args)
        defaults = cwd / options.get("defaults-file", _DEFAULTS)
        settings = _properties(files, defaults) if defaults.exists() or "defaults-file" in options else {}
        changelogs = changelogs or [settings[name] for name in ("changelog-file", "changeLogFile") if name in settings]
        if not changelogs:
            raise ConfigError("expected --changelog-file=FILE, found none", hint=_HINT)
        given = {
            name.removeprefix("parameter."): value for name, value in settings.items() if name.startswith("parameter.")
        }
        places = options.get("search-path", settings.get("search-path", "."))
        search = [cwd / each for each in re.split(r"[,;]", places) if each]
        steps: list[Step] = []
        for changelog in changelogs:
            tree = Changelogs(files, search, given | parameters)
            content = Content()
            tree.add(changelog, content)
            named = {
                **{f"--{name}": value for name, value in options.items()},
                **{f"-D{k}": v for k, v in parameters.items()},
            }
            _name(content, "flag", named)
            _name(content, "setting", settings)
            _name(content, "environment", {name: value for name, value in env.items() if _counts(name)})
            _name(content, "tool", {"liquibase": _version(self._program, env)})
            command = [f"--{name}={value}" for name, value in options.items()]
            command += [f"--changelog-file={changelog}", "update", *(f"-D{k}={v}" for k, v in parameters.items())]
            steps.append(
                Step(
                    number=len(steps) + 1,
                    title=changelog,
                    command=tuple(command),
                    stdin=None,
                    content=digest("liquibase", *content.parts),
                    inputs=content.inputs({}),
                    ingredients=content.ingredients(),
                    marks=tuple(content.marks),
                    cwd=str(cwd),
                    env=tuple((k, v) for k, v in sorted(env.items()) if k in {*KEPT, "JAVA_HOME"} or _counts(k)),
                )
            )
        return Plan(self.kind, tuple(steps))

    def run_command(self, step: Step, connection: Connection) -> Command:
        if connection.host.startswith("/"):
            raise ConfigError(
                f"liquibase can't connect to a socket in {connection.host}", hint="let the instance listen on loopback"
            )
        url = f"jdbc:postgresql://{connection.host}:{connection.port}/{connection.database}"
        if options := dict(step.env).get("PGOPTIONS"):  # such as a time limit; the driver does not read the variable
            url += f"?options={quote(options)}"
        argv = (self._program, f"--url={url}", f"--username={connection.user}", *step.command)
        # The driver of Postgres reads the password from PGPASSFILE.
        return Command(argv, dict(step.env) | connection.environment(), None, Path(step.cwd))


def _read(args: Sequence[str]) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Options, changelog parameters, and changelogs."""
    options, parameters, changelogs = dict[str, str](), dict[str, str](), list[str]()
    queue = list(args)
    while queue:
        arg = queue.pop(0)
        if arg == "update":
            continue
        name, equals, value = arg.partition("=")
        if arg.startswith("-D") and equals:
            parameters[name[2:]] = value
            continue
        if not arg.startswith("--"):
            raise ConfigError(f"arguments of liquibase: unexpected {arg!r}", hint=_HINT)
        if not equals:
            if not queue:
                raise ConfigError(f"arguments of liquibase: expected a value after {arg}", hint=_HINT)
            value = queue.pop(0)
        name = _dashed(name[2:])
        if name in _CONNECTION:
            raise ConfigError(f"--{name} can't be given: the engine chooses the server of a state", hint="leave it out")
        if name == "changelog-file":
            changelogs.append(value)
        else:
            options[name] = value
    return options, parameters, changelogs


def _dashed(name: str) -> str:
    """An option's name as newer versions write it: changeLogFile is changelog-file."""
    found = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
    return found.replace("change-log", "changelog")


def _properties(files: Files, path: Path) -> dict[str, str]:
    text = files.text(path, "liquibase").decode("utf-8", "replace")
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=") if "=" in line else line.partition(":")
        if equals and not line.lstrip().startswith(("#", "!")):
            key = name.strip() if name.strip().startswith("parameter.") else _dashed(name.strip().rpartition(".")[2])
            if key not in _CONNECTION:
                found[key] = value.strip()
    return found


def _name(content: Content, kind: Kind, named: Mapping[str, str]) -> None:
    for name, value in sorted(named.items()):
        content.add(kind, name, value)
        content.name(kind, name, value)


def _counts(name: str) -> bool:
    """Whether a variable of the environment is an option of liquibase other than the connection."""
    return name.startswith("LIQUIBASE_") and not name.endswith(("_URL", "_USERNAME", "_PASSWORD"))


def _version(program: str, env: Mapping[str, str]) -> str:
    """The version of the liquibase that is on the path; empty if none is."""
    found = shutil.which(program, path=search_path(env))
    if found is None:
        return ""
    home = Path(found).resolve().parent
    seen = stamps((Path(found), home / "liquibase", home / "lib", home / "internal" / "lib"))
    return _cached_version(found, seen, tuple((name, env[name]) for name in ("PATH", "JAVA_HOME") if name in env))


@functools.lru_cache(maxsize=16)
def _cached_version(program: str, _: object, env: tuple[tuple[str, str], ...]) -> str:
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=dict(env)
    )
    match = re.search(r"Version:\s*(\S+)", done.stdout)
    if done.returncode or match is None:
        raise ConfigError(f"{program} --version failed: {done.stderr.strip()[-200:]}", hint="liquibase needs Java")
    return match[1]
