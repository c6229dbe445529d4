"""Join keys as strings: a string as it is, an integer as its digits; other values are no keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType
from gauss.model.errors import ConfigError
from gauss.plugins.processors.fields import is_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

ANY = FieldType("json")
"""The type as which a key is decoded if no schema has it: its JSON text."""
WHOLE = r"^-?[0-9]+$"


def check_key(name: str, kind: FieldType) -> None:
    """Raises ConfigError if values of the type can't be keys."""
    from gauss.contracts.field_types import arrow_type

    if kind == ANY or is_text(kind):
        return
    import pyarrow as pa

    if not pa.types.is_integer(arrow_type(kind)):
        raise ConfigError(f'"{name}" is {kind.name}: a key must be text or a whole number', hint="name another field")


def arrow_texts(keys: pa.Array, kind: FieldType) -> pa.Array:
    """The keys as strings; null where a value is no key."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind != ANY:
        return keys if pa.types.is_string(keys.type) else keys.cast(pa.string())
    quoted = pc.starts_with(keys, '"')
    texts = pc.utf8_slice_codeunits(keys, 1, -1)
    if pc.any(pc.match_substring(keys, "\\")).as_py():
        texts = _unescaped(keys, texts, pc.and_(quoted, pc.match_substring(keys, "\\")))
    if quoted.true_count + keys.null_count == len(keys):
        return texts
    numbers = pc.if_else(pc.match_substring_regex(keys, WHOLE), keys, None)
    return pc.if_else(quoted, texts, numbers)


def _unescaped(keys: pa.Array, texts: pa.Array, escaped: pa.Array) -> pa.Array:
    """The texts, with those that have a backslash decoded as JSON."""
    import msgspec
    import pyarrow as pa
    import pyarrow.compute as pc

    mask = pc.fill_null(escaped, False)
    read = [msgspec.json.decode(key) for key in keys.filter(mask).to_pylist()]
    return pc.replace_with_mask(texts, mask, pa.array(read, pa.string()))


def spark_texts(key: Column, kind: FieldType) -> Column:
    """As `arrow_texts`, for a column of Spark's."""
    from pyspark.sql import functions as F

    if kind != ANY:
        return key.cast("string")
    read = F.from_json(F.concat(F.lit("["), key, F.lit("]")), "array<string>")[0]
    text = F.when(key.contains("\\"), read).otherwise(F.substring(key, F.lit(2), F.length(key) - 2))
    return F.when(key.startswith('"'), text).when(key.rlike(WHOLE), key)
