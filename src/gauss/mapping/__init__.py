"""From a format's schema to a table's, and from decoded rows to its columns."""

from gauss.mapping.row import Row, RowField, apply_mapping, row_of

__all__ = ["Row", "RowField", "apply_mapping", "row_of"]
