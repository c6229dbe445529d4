"""The files of a changelog of liquibase: XML, YAML, JSON or SQL, with all that they include or load."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gauss.dbstates.planning.content import Content
from gauss.dbstates.planning.files import Files
from gauss.dbstates.planning.volatility import IN_LITERAL
from gauss.model.errors import ConfigError

_KEYS = ("file", "path")
_NOT_FILES = frozenset(["databaseChangeLog", "executeCommand", "property.name"])
_YAML = re.compile(r"""(?:\bfile|\bpath)["']?\s*:\s*(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'#][^\n,}#]*))""")
_PARAMETER = re.compile(r"\$\{([^}]+)\}")
_PROGRAMS = re.compile(r"\b(executeCommand|customChange|valueComputed)\b")


@dataclass(frozen=True)
class _Named:
    """A path in a changelog."""

    path: str
    relative: bool | None
    """To the changelog in place of the search path; None: it may be either."""


class Changelogs:
    """The files of one changelog tree."""

    def __init__(self, files: Files, search: Sequence[Path], parameters: Mapping[str, str]) -> None:
        self._files, self._search, self._parameters = files, search, parameters
        self._seen: set[Path] = set()

    def add(self, name: str, content: Content, places: Sequence[Path] | None = None, where: str = "liquibase") -> None:
        """Adds a file or all files of a folder, and what they name."""
        for found in self._find(name, self._search if places is None else places, where):
            self._add(found, content, where)

    def _add(self, found: Path, content: Content, where: str) -> None:
        # The order in which liquibase applies a folder depends on the names.
        for path in sorted(each for each in found.rglob("*") if each.is_file()) if found.is_dir() else [found]:
            real = path.resolve()
            label = self._files.label(real)
            content.add("changelog", path.name if found.is_dir() else "")
            if real in self._seen:
                continue
            self._seen.add(real)
            content.data(label, self._files.other(real, where))
            if real.suffix.lower() in (".xml", ".yaml", ".yml", ".json", ".sql"):
                self._follow(real, label, content)

    def _follow(self, path: Path, label: str, content: Content) -> None:
        raw = self._files.text(path, label)
        text = raw.decode("utf-8", "replace")
        for number, line in enumerate(raw.splitlines(), 1):
            for each in IN_LITERAL.finditer(line):
                content.mark(next(part.decode() for part in each.groups() if part), label, number)
        for match in _PROGRAMS.finditer(text):
            content.mark(match[1], label, text.count("\n", 0, match.start()) + 1)
        for named in self._names(path, text, label):
            places = {True: [path.parent], False: self._search, None: [path.parent, *self._search]}[named.relative]
            self.add(named.path, content, places, label)

    def _names(self, path: Path, text: str, label: str) -> Iterator[_Named]:
        try:
            if path.suffix.lower() == ".xml":
                yield from _in_xml(ET.fromstring(text.encode()))
            elif path.suffix.lower() == ".json":
                yield from _in_json(json.loads(text))
            elif path.suffix.lower() in (".yaml", ".yml"):
                yield from _in_yaml(text)
        except (ET.ParseError, ValueError) as error:
            raise ConfigError(f"{label}: expected a changelog: {error}") from None

    def _find(self, name: str, places: Sequence[Path], where: str) -> list[Path]:
        missing = [each for each in _PARAMETER.findall(name) if each not in self._parameters]
        if missing:
            raise ConfigError(
                f"{where}: {name}: parameter {missing[0]} is not known", hint=f"give it as -D{missing[0]}=…"
            )
        name = _PARAMETER.sub(lambda match: self._parameters[match[1]], name).removeprefix("classpath:")
        found = {Path(os.path.normpath(folder / name)) for folder in places}
        if existing := sorted(each for each in found if each.exists()):
            return existing
        raise ConfigError(
            f"{where}: no file {name} in {', '.join(map(str, places))}", hint="give the folder by --search-path"
        )


def _in_xml(root: ET.Element) -> Iterator[_Named]:
    for element in root.iter():
        if element.tag.rpartition("}")[2] in _NOT_FILES:
            continue
        relative = element.get("relativeToChangelogFile", "").lower() == "true"
        for key in _KEYS:
            if value := element.get(key):
                yield _Named(value, relative)


def _in_json(value: object) -> Iterator[_Named]:
    if isinstance(value, list):
        for each in value:
            yield from _in_json(each)
    elif isinstance(value, dict):
        relative = str(value.get("relativeToChangelogFile", "")).lower() == "true"
        for key, each in value.items():
            if key in _KEYS and isinstance(each, str):
                yield _Named(each, relative)
            else:
                yield from _in_json(each)


def _in_yaml(text: str) -> Iterator[_Named]:
    """The values of all keys that name files, in block or flow style; whether one is relative is not looked at."""
    for match in _YAML.finditer(text):
        yield _Named(next(each for each in match.groups() if each is not None).strip(), None)
