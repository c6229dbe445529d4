"""auto: the format that the first bytes tell."""

from __future__ import annotations

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig


class AutoFormatConfig(PluginConfig):
    """Detects json (an object), an Avro container, an Arrow stream or file, else csv, from a record's first bytes."""

    columns: list[str] | None = None
    """Names of the csv columns, in order. Default: `c0`, `c1`, …"""
    delimiter: str | None = None
    """The csv delimiter. Default: the most frequent of comma, semicolon, tab and bar."""


SPEC = FormatSpec(
    name="auto",
    summary="detects json, csv, avro container or arrow from the first bytes of each record",
    config=AutoFormatConfig,
    implementation="gauss.plugins.formats.auto.codec:AutoFormat",
)
