"""From a format's schema to a table's, and from decoded rows to its columns."""

from gauss.mapping.frame import map_frame
from gauss.mapping.row import Row, RowField, apply_mapping, row_of

__all__ = ["Row", "RowField", "apply_mapping", "map_frame", "row_of"]
