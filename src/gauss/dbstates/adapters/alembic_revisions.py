"""The revisions of an alembic project, in an order in which they can be applied one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from gauss.dbstates.adapters.python_source import PythonSource
from gauss.model.errors import ConfigError


class Revisions:
    """The revision files of a project by id."""

    def __init__(self, files: Sequence[PythonSource]) -> None:
        self.files: dict[str, PythonSource] = {}
        for file in sorted(files, key=lambda each: each.path):
            revision = file.constants["revision"]
            if not isinstance(revision, str):
                raise ConfigError(f"{file.path}: expected a text as revision, found {revision!r}")
            if revision in self.files:
                raise ConfigError(
                    f"{file.path}: revision {revision} is also that of {self.files[revision].path}",
                    hint="give one of them a new id",
                )
            self.files[revision] = file
        self._before = {revision: self._parents(file) for revision, file in self.files.items()}

    def up_to(self, target: str) -> list[str]:
        """The revisions that lead to a target, in order."""
        wanted: set[str] = set()
        queue = self._targets(target)
        while queue:
            revision = queue.pop()
            if revision not in wanted:
                wanted.add(revision)
                queue += self._before[revision]
        graph: Mapping[str, list[str]] = {each: self._before[each] for each in self._before if each in wanted}
        try:
            return list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            raise ConfigError(f"revisions depend on each other: {' → '.join(error.args[1])}") from None

    def _parents(self, file: PythonSource) -> list[str]:
        found = list[str]()
        for name in ("down_revision", "depends_on"):
            if name == "down_revision" and name not in file.constants:
                raise ConfigError(f"{file.path}: expected down_revision as a plain value, found none")
            value = file.constants.get(name)
            for each in (
                (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (tuple, list)) else ()
            ):
                found.append(self._known(str(each), f"{file.path}: {name}"))
        return found

    def _known(self, revision: str, where: str) -> str:
        if revision in self.files:
            return revision
        found = [each for each in self.files if each.startswith(revision)]
        if len(found) != 1:
            raise ConfigError(f"{where}: expected one revision {revision}, found {len(found)}")
        return found[0]

    def _targets(self, target: str) -> list[str]:
        parents = {each for some in self._before.values() for each in some}
        heads = [each for each in self.files if each not in parents]
        if target == "heads":
            return heads
        if target == "head":
            if len(heads) > 1:
                raise ConfigError(
                    f"expected one head, found {len(heads)}: {', '.join(heads)}", hint="give heads, or merge them"
                )
            return heads
        if not target or not all(each.isalnum() or each in "_-" for each in target):
            raise ConfigError(f"expected head, heads or a revision after upgrade, found {target!r}")
        return [self._known(target, "upgrade")]
