"""avro_container: an Avro object container file as a stream; a record is its header and one block."""

from __future__ import annotations

from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import PluginConfig


class AvroContainerConfig(PluginConfig):
    """No settings: the stream is self-describing."""


SPEC = FramingSpec(
    name="avro_container",
    summary="Avro object container; a record is its header and one block",
    config=AvroContainerConfig,
    implementation="gauss.plugins.framings.avro_container.framing:AvroContainerFraming",
    raw=False,
)
