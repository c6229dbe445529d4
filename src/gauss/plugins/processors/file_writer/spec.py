"""file-writer: a passthrough whose target is a file topic."""

from __future__ import annotations

import dataclasses

from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext
from gauss.plugins.processors.passthrough.spec import SPEC as PASSTHROUGH
from gauss.plugins.processors.passthrough.spec import PassthroughConfig


class FileWriterConfig(PassthroughConfig):
    """No settings: records are not decoded. The topic's `storage_config` controls the files."""


def lint(config: PluginConfig, context: LintContext) -> list[str]:  # noqa: ARG001
    """A target that is no file."""
    if context.target_storage in ("file", ""):
        return []
    found = context.target_storage
    return [f'file-writer needs a target with storage = "file", found "{found}": use passthrough for any other']


EXAMPLE = """
[[topics]]
name = "archive"
storage = "file"

[[processors]]
name = "file-writer"
plugin = "file-writer"
source = { topic = "quotes", read = "offset" }
target = { topic = "archive" }
"""

SPEC = dataclasses.replace(
    PASSTHROUGH,
    name="file-writer",
    summary="copies records unchanged into a file topic",
    config=FileWriterConfig,
    lint=lint,
    example=EXAMPLE,
)
