"""The databases that a pipeline refers to, as instances that its data directory keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from gauss.config.check import Checked
from gauss.config.spec import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


def with_kept_databases(
    pipeline: Pipeline, names: Collection[str], checked: Checked, data_dir: Path, tell: Callable[[str], None]
) -> Pipeline:
    """The pipeline with the addresses of these databases, which are prepared if the data directory has no instances of
    them yet. This process holds them until it ends; then their servers are stopped and their content stays."""
    from gauss.clients.dbstates.prepared import kept_instances

    wanted = [each for each in pipeline.databases if each.name in names]
    if not wanted:
        return pipeline
    tell(f"preparing {', '.join(each.name for each in wanted)}")
    found, _ = kept_instances(data_dir, wanted, checked.base_dir)
    return _addressed(pipeline, found, checked)


def with_known_databases(pipeline: Pipeline, checked: Checked, data_dir: Path) -> Pipeline:
    """The pipeline with the addresses of the databases whose servers run; starts and prepares nothing."""
    if not pipeline.databases:
        return pipeline
    from gauss.clients.dbstates.prepared import known_instances

    return _addressed(pipeline, known_instances(data_dir), checked)


def _addressed(pipeline: Pipeline, found: Mapping[str, str], checked: Checked) -> Pipeline:
    from gauss.config.database_refs import with_addresses

    for dsn in found.values():
        checked.redactor.remember(unquote(urlsplit(dsn).password or ""))
    return with_addresses(pipeline, found)
