"""mask: hides the values of Arrow columns."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.plugins.processors.fields import column_name, is_text, path, plain
from gauss.plugins.processors.layout import Layout, layout
from gauss.plugins.processors.mask.spec import MaskConfig

if TYPE_CHECKING:
    import pyarrow as pa


class Mask:
    """Hides the values of some fields."""

    def __init__(self, config: MaskConfig) -> None:
        self._config = config
        self._names = list(dict.fromkeys(plain(name) for name in config.fields))
        self._layout: Layout | None = None

    def bind(self, schemas: Schemas) -> Traits:
        """The fields that are written. Methods other than `null` need string fields."""
        any_value = self._config.method == "null"
        kind = FieldType("json" if any_value else "string")
        self._layout = layout(schemas.input, schemas.output, {path(name): kind for name in self._names})
        for name in self._names:
            kind = self._layout.type_of(name)
            if not any_value and not is_text(kind):
                raise ConfigError(
                    f'"{name}" is {kind.name}, and method = "{self._config.method}" hides text',
                    hint='use method = "null" for it',
                )
        return self._layout.traits()

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records with masked fields."""
        assert self._layout is not None
        found = {name: records.column(column_name(records, name)) for name in self._names}
        return self._layout.arrow(records, {name: self._array(values) for name, values in found.items()})

    def _array(self, values: pa.Array) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        match self._config.method:
            case "redact":
                return pc.if_else(values.is_valid(), self._config.text, pa.scalar(None, pa.string()))
            case "hash":
                return self._hashed(values)
            case "partial":
                length = pc.utf8_length(values)
                shown = pc.if_else(pc.greater(length, self._config.keep), self._config.keep, 0)
                hidden = pc.subtract(length, shown)
                stars = pc.binary_repeat(pa.array(["*"] * len(values), pa.string()), hidden)
                return pc.binary_join_element_wise(stars, self._tail(values, shown), "")
        return pa.nulls(len(values), values.type)

    def _tail(self, values: pa.Array, shown: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

        last = pc.utf8_slice_codeunits(values, -self._config.keep) if self._config.keep else ""
        return pc.if_else(pc.greater(shown, 0), last, "")

    def _hashed(self, values: pa.Array) -> pa.Array:
        """Each distinct value once: Arrow has no SHA-256, and hashlib takes one at a time."""
        import pyarrow as pa

        coded = values.dictionary_encode()
        salt = hashlib.sha256(self._config.salt.encode())
        made = []
        for text in coded.dictionary.to_pylist():
            digest = salt.copy()
            digest.update(text.encode())
            made.append(digest.hexdigest())
        return pa.DictionaryArray.from_arrays(coded.indices, pa.array(made, pa.string())).dictionary_decode()
