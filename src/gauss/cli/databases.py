"""The databases that a pipeline refers to, as instances that its data directory keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from gauss.config.check import Checked
from gauss.config.spec import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def with_kept_databases(
    pipeline: Pipeline, names: Collection[str], checked: Checked, data_dir: Path, tell: Callable[[str], None]
) -> Pipeline:
    """The pipeline with the addresses of these databases, which are prepared if the data directory has no instances of
    them yet. Instances stay when the command ends: `gauss db instances` lists them."""
    from gauss.clients.dbstates.prepared import kept_instances
    from gauss.config.database_refs import with_addresses

    wanted = [each for each in pipeline.databases if each.name in names]
    if not wanted:
        return pipeline
    tell(f"preparing {', '.join(each.name for each in wanted)}")
    found = kept_instances(data_dir, wanted, checked.base_dir)
    for dsn in found.values():
        checked.redactor.remember(unquote(urlsplit(dsn).password or ""))
    return with_addresses(pipeline, found)
