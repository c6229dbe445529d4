"""auto: the format that the first bytes tell."""

from __future__ import annotations

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig


class AutoConfig(PluginConfig):
    """Detects json (an object), an Avro container, an Arrow stream or file, else csv, from a record's first bytes."""

    columns: list[str] | None = None
    """Names of csv cells, in their order; left out: `c0`, `c1` and so on."""
    delimiter: str | None = None
    """What stands between csv cells; left out: the most frequent of comma, semicolon, tab and bar."""


SPEC = FormatSpec(
    name="auto",
    summary="json, csv, avro container or arrow, as the first bytes of each record tell",
    config=AutoConfig,
    implementation="gauss.plugins.formats.auto.codec:AutoFormat",
)
