"""Maps the schema of a format to that of a table, and decoded rows to its columns."""

from gauss.mapping.row import Row, RowField, apply_mapping, row_of

__all__ = ["Row", "RowField", "apply_mapping", "row_of"]
