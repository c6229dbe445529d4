"""The cases, by subject."""

from __future__ import annotations

from importlib import import_module

ORDER = (
    *("gate", "lifecycle", "spec"),
    *("source_read", "source_types", "source_incremental", "source_parts"),
    *("destination_write", "destination_modes", "destination_types", "destination_evolution"),
    *("destination_letters", "destination_fences", "compression", "opaque"),
    *("errors", "stops", "cdc", "crashes"),
)
"""The order in which they run: what others build on comes first."""

for _name in ORDER:
    import_module(f"{__name__}.{_name}")
