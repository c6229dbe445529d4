"""passthrough: records go on as they are."""

from __future__ import annotations

from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where


class PassthroughConfig(PluginConfig):
    """No settings: records are not decoded."""


EXAMPLE = """
[[processors]]
name = "passthrough"
plugin = "passthrough"
source = { topic = "quotes", read = "offset" }
target = { topic = "copy" }
"""

SPEC = ProcessorSpec(
    name="passthrough",
    summary="copies records unchanged",
    config=PassthroughConfig,
    implementation="gauss.plugins.processors.passthrough.spark:PassthroughTransform",
    engine_implementation="gauss.plugins.processors.passthrough.transform:PassthroughEngineTransform",
    role=Role.TRANSFORM,
    where=Where.EITHER,
    active=False,
    hosted=True,
    passes_bytes=True,
    same_bytes=True,
    reads=frozenset({"offset", "latest", "query"}),
    example=EXAMPLE,
)
