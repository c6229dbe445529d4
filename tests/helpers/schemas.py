"""Source schemas of the specification's examples of schema maps."""

from __future__ import annotations

from gauss.contracts.format import FieldType, SourceField, SourceSchema


def field(name: str, kind: str, **attrs: object) -> SourceField:
    return SourceField(name, FieldType(kind, dict(attrs)))


QUOTE = SourceSchema(
    (
        field("symbol", "string"),
        field("bid", "decimal", precision=18, scale=8),
        field("ask", "decimal", precision=18, scale=8),
        field("volume", "int64"),
        field("exchange", "string"),
        field("internal_id", "string"),
        field("debug_info", "bytes"),
    ),
    {"package": "market.data", "message": "Quote"},
)
