"""auto: the framing that the first bytes of a stream tell."""

from __future__ import annotations

from gauss.contracts.framing import FramingSpec
from gauss.plugins.framings.newline.spec import NewlineConfig


class AutoFramingConfig(NewlineConfig):
    """Detects the framing from the first bytes of each stream: `Obj` and a byte 1 start an Avro container
    (`avro_container`), four bytes 255 an Arrow IPC stream (`arrow_ipc_streaming`), anything else is text with a
    delimiter (`newline`). Length prefixes, as of protobuf, cannot be detected: use `length_prefixed` for them."""


SPEC = FramingSpec(
    name="auto",
    summary="detects an Avro container, an Arrow IPC stream or lines of text from the first bytes of a stream",
    config=AutoFramingConfig,
    implementation="gauss.plugins.framings.auto.framing:AutoFraming",
    raw=False,
    splits_only=True,
)
