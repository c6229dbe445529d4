"""auto: the framing that the first bytes of a stream tell."""

from __future__ import annotations

from gauss.contracts.framing import FramingSpec
from gauss.plugins.framings.newline.spec import NewlineConfig


class AutoConfig(NewlineConfig):
    """The first bytes of each stream tell its format, and so how it is cut: `Obj` and a byte 1 begin an Avro container
    (`avro_container`), four bytes 255 an Arrow IPC stream (`arrow_ipc_streaming`); anything else is text, of JSON or
    csv, and ends its records with the delimiter (`newline`). Records with a length before them, as protobuf's, can't
    be told from others: name `length_prefixed` for them."""


SPEC = FramingSpec(
    name="auto",
    summary="an Avro container, an Arrow IPC stream or lines of text, as the first bytes of a stream tell",
    config=AutoConfig,
    implementation="gauss.plugins.framings.auto.framing:AutoFraming",
    raw=False,
    splits_only=True,
)
