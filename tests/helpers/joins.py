"""A pipeline that joins quotes with a table of instruments."""

from __future__ import annotations

from typing import Any


def join_config(table_format: str = "json", plugin: str = "join", **given: Any) -> dict[str, Any]:
    fields = {
        "quote": [("symbol", "string"), ("bid", "float64")],
        "instrument": [("symbol", "string"), ("name", "string"), ("lot", "float64"), ("bid", "float64")],
        "both": [("symbol", "string"), ("bid", "float64"), ("name", "string")],
    }
    return {
        "formats": [
            {"name": name, "plugin": "json", "config": {"fields": [{"name": n, "type": t} for n, t in entries]}}
            for name, entries in fields.items()
        ],
        "topics": [
            {"name": "in", "storage": "memory"},
            {"name": "out", "storage": "memory"},
            {
                "name": "instruments",
                "storage": "memory",
                "storage_config": {
                    "mode": "table",
                    "format": table_format,
                    "key_field": "symbol",
                    "delete_when": ".symbol == null or .gone == true" if table_format == "json" else None,
                },
            },
        ],
        "processors": [
            {
                "name": "p",
                "plugin": plugin,
                "source": {"topic": "in", "read": "offset"},
                "target": {"topic": "out"},
                "config": {
                    **({"join_topic": "instruments", "join_key": "symbol"} if plugin == "join" else {}),
                    **given,
                },
            }
        ],
    }
