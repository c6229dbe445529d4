"""Runs the cases of a connector, one after the other."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from gauss import registry
from gauss.config.validate import did_you_mean
from gauss.connect.conformance import cases as _cases  # noqa: F401  (registers them)
from gauss.connect.conformance.bench import Bench
from gauss.connect.conformance.case import CASES, Case, CaseFailed, NotApplicable, Result, Role, Status
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.kit_sync import described
from gauss.connect.conformance.settings import KitSettings
from gauss.connect.conformance.source_bench import SourceBench
from gauss.connect.conformance.target import OTHER, Target, roles_of, targets
from gauss.model.errors import ConfigError, GaussError

QUIET = logging.NullHandler()
BENCHES: dict[Role, type[Bench]] = {Role.SOURCE: SourceBench, Role.DESTINATION: DestinationBench}


class Conformance:
    """A test of one connector."""

    def __init__(
        self,
        connector: str,
        settings: KitSettings,
        base_dir: Path,
        *,
        role: Role | None = None,
        only: Callable[[str], bool] = lambda _: True,
        data_dir: Path | None = None,
    ) -> None:
        """`only`: which cases, by their name. `data_dir`: where embedded servers are. Raises ConfigError."""
        registry.look_in(base_dir)
        known = roles_of(connector, base_dir)
        if role is not None and role not in known:
            raise ConfigError(f'"{connector}" is no {role}', hint=f"it is a {' and a '.join(known)}")
        self._connector, self._settings, self._base_dir = connector, settings, base_dir
        self._roles = known if role is None else [role]
        self._only, self._data_dir = only, data_dir
        self.hung = False
        """Whether a connector did not end, so that this process has to be ended by force."""

    def __iter__(self) -> Iterator[Result]:
        """Runs the cases; yields their results."""
        # Retries and rejected rows are part of the test: without a handler, Python would print them.
        logging.getLogger("gauss.connect").addHandler(QUIET)
        with ExitStack() as stack:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="gauss-kit-", ignore_cleanup_errors=True))
            )
            settings = {role: self._settings.of(role) for role in Role}
            data_dir = self._data_dir or folder / "data"
            found = stack.enter_context(targets(self._connector, self._roles, settings, self._base_dir, data_dir))
            for role in self._roles:
                yield from self._role(found[role], found.get(OTHER[role]), folder / role)

    def _role(self, target: Target, other: Target | None, folder: Path) -> Iterator[Result]:
        bench = BENCHES[target.role](target, other, self._settings, folder)
        blocked: set[str] = set()
        with suppress(GaussError, CaseFailed, NotApplicable):  # the cases that need it fail with the reason
            bench.prime()
        for case in CASES.all:
            if case.role is not target.role or not self._only(case.name):
                continue
            if before := next((name for name in case.after if name in blocked), None):
                blocked.add(case.name)
                yield Result(case, Status.NOT_APPLICABLE, f"needs {before}, which did not pass")
                continue
            result = _run(case, bench)
            self.hung = self.hung or bench.hung
            if result.status is Status.FAILED:
                blocked.add(case.name)
            yield result
        bench.close()


def _run(case: Case, bench: Bench) -> Result:
    began = time.monotonic()
    try:
        case.run(bench)
    except CaseFailed as error:
        status, detail = Status.FAILED, error.found
    except NotApplicable as error:
        status, detail = Status.NOT_APPLICABLE, error.reason
    except GaussError as error:
        status, detail = Status.FAILED, described(error)
    except Exception as error:  # of a connector that is called directly, or of a hook
        status, detail = Status.FAILED, f"{type(error).__name__}: {error}"
    else:
        status, detail = Status.PASSED, ""
    return Result(case, status, detail, time.monotonic() - began)


def check_names(names: list[str]) -> None:
    """Raises ConfigError if there is no case of a name. A name that ends in `.` means all that begin with it."""
    known = {case.name for case in CASES.all}
    for name in names:
        if name not in known and not any(each.startswith(name) and name.endswith(".") for each in known):
            near = did_you_mean(name, known) or "see: gauss docs connectors"
            raise ConfigError(f'no case "{name}"', hint=near)
