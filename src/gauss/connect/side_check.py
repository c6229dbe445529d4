"""Opens both sides of a sync and lets them judge their settings, within a time limit. Starts no server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gauss.config.database_refs import side_database
from gauss.config.syncs import SyncDef
from gauss.connect.embedded_sides import is_embedded
from gauss.connect.sides import find_spec
from gauss.connect.sync import DEST, SOURCE, Sync
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.model.errors import GaussError

LIMIT_S = 10.0
ROLES = {"source": SOURCE, "destination": DEST}
_LATER = (ErrorCategory.TRANSIENT_NETWORK, ErrorCategory.TRANSIENT_DB, ErrorCategory.RATE_LIMIT)


class SideCheck(NamedTuple):
    """What became of one side."""

    role: str
    connector: str
    status: str
    """`success`, `warning`, `failed`, or `unreachable`: it may be reached later."""
    message: str = ""
    hint: str = ""


def check_sides(definition: SyncDef, base_dir: Path, data_dir: Path, seconds: float = LIMIT_S) -> Iterator[SideCheck]:
    """Checks source and destination; raises nothing."""
    for role in ROLES:
        name = getattr(definition, role).connector
        if (database := side_database(role, getattr(definition, role))) is not None:
            yield SideCheck(role, name, "success", f'database "{database}", which is not up: a run prepares it')
            continue
        if is_embedded(definition, role):
            spec = find_spec(role, name)
            yield SideCheck(role, name, "success", f"the embedded {spec.system if spec else name}")
            continue
        found: list[SideCheck] = []
        given = (definition, base_dir, data_dir, role)
        checking = threading.Thread(target=lambda g=given, f=found: f.append(_check(*g)), daemon=True)
        checking.start()
        checking.join(seconds)
        yield found[0] if found else SideCheck(role, name, "unreachable", f"no answer within {seconds:g} s")


def _check(definition: SyncDef, base_dir: Path, data_dir: Path, role: str) -> SideCheck:
    name = getattr(definition, role).connector
    try:
        found = Sync(definition, base_dir, data_dir).check_side(ROLES[role])
    except ConnectorError as error:
        status = "unreachable" if error.category in _LATER else "failed"
        return SideCheck(role, name, status, error.message, error.hint)
    except GaussError as error:
        return SideCheck(role, name, "failed", error.message, error.hint)
    return SideCheck(role, name, found.status, found.message)
