"""Texts that stand for values of other types. In a nullable column ClickHouse takes one that is none for null, without
an error, so they are checked before they are sent."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.clickhouse.types import render_type
from gauss.clients.errors import RowError
from gauss.contracts.format import FieldType

_HEX = "[0-9a-fA-F]"
_BYTE = "(25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])"
_IPV4 = rf"({_BYTE}\.){{3}}{_BYTE}"
_PART = f"{_HEX}{{1,4}}"


def _compressed(most: int, end: str = "") -> str:
    """The forms of an address of at most `most` parts and an end, with `::` in it."""
    forms = []
    for before in range(most):
        head = f"({_PART}:){{{before}}}:" if before else "::"
        tail = f"({_PART}:){{0,{most - 1 - before}}}{end}" if end else f"(({_PART}:){{0,{most - 1 - before}}}{_PART})?"
        forms.append(head + tail)
    return "|".join(forms)


_IPV6 = "|".join(
    (
        f"({_PART}:){{7}}{_PART}",
        _compressed(7),
        f"({_PART}:){{7}}:",
        f"({_PART}:){{6}}{_IPV4}",
        _compressed(6, _IPV4),
        _IPV4,
    )
)
_FORMS = {
    "UUID": f"^({_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}|{_HEX}{{32}})$",
    "IPv4": f"^{_IPV4}$",
    "IPv6": f"^({_IPV6})$",
}


def check_texts(name: str, values: pa.Array | pa.ChunkedArray, kind: FieldType) -> None:
    """Raises RowError if a text is no value of the type. `values`: those of `kind`, without lists around them."""
    given = values.type
    is_text = pa.types.is_string(given) or pa.types.is_large_string(given)
    if is_text and kind.name in _FORMS:
        fits = pc.match_substring_regex(values, _FORMS[kind.name])
    elif kind.name == "FixedString" and (is_text or pa.types.is_binary(given) or pa.types.is_large_binary(given)):
        fits = pc.less_equal(pc.binary_length(values), int(kind.attrs["length"]))
    else:
        return
    if not pc.all(fits, min_count=0).as_py():
        raise RowError(f"column {name}: a text is no {render_type(kind)}", reason="convert", column=name)
