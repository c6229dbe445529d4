"""format-convert: the reader decodes and the writer encodes, between them only columns are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.plugins.processors.format_convert.spec import FormatConvertConfig
from gauss.plugins.processors.layout import Layout, layout

if TYPE_CHECKING:
    import pyarrow as pa


class FormatConvert:
    """The output's fields of each row."""

    def __init__(self, config: FormatConvertConfig) -> None:
        self._config = config
        self._layout: Layout | None = None

    def bind(self, schemas: Schemas) -> Traits:
        """The fields that are written; an input without a schema is decoded by the types of the output's."""
        self._layout = layout(schemas.input, schemas.output, {})
        if self._layout.carries:
            raise ConfigError(
                f'neither "{self._config.input.format}" nor "{self._config.output.format}" says which fields there are',
                hint="give one of the two formats `fields`",
            )
        return self._layout.traits()

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The columns to write."""
        assert self._layout is not None
        return self._layout.arrow(records, {})
