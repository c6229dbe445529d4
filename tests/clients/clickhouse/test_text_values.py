"""Texts that are no UUID, address or fixed string are found before ClickHouse makes null of them."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from gauss.clients.clickhouse.text_values import check_texts
from gauss.clients.clickhouse.types import parse_type
from gauss.clients.errors import RowError


def fits(kind: str, *texts: str | None) -> bool:
    try:
        check_texts("c", pa.array(texts, pa.string()), parse_type(kind))
    except RowError as error:
        assert (error.reason, error.column) == ("convert", "c")
        return False
    return True


def parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


parts = st.lists(st.sampled_from(["", "0", "ab", "1f2E", "12345", "g", "1.2.3.4", "1.2.3.256"]), max_size=9)


@given(parts.map(":".join) | st.ip_addresses(v=6).map(str))
@example("1:2:3:4:5:6:7::")
@example("::1:2:3:4:5:6:7")
@example("1::3:4:5:6:7:8")
@example("::")
@example("")
@example("1:2:3:4:5:6:1.2.3.4")
@example("1:2:3:4:5::1.2.3.4")
@example("::1%eth0")
def test_an_address_of_version_6_is_one_for_python_too(text: str) -> None:
    if "%" in text:
        assert not fits("IPv6", text)
    elif ":" in text:
        assert fits("IPv6", text) == parses(ipaddress.IPv6Address, text)
    else:  # an address of version 4 stands for one of version 6
        assert fits("IPv6", text) == parses(ipaddress.IPv4Address, text)


@given(
    st.lists(st.sampled_from(["0", "9", "99", "199", "249", "255", "256", "1000", "", "a"]), max_size=5).map(".".join)
)
def test_an_address_of_version_4_is_one_for_python_too(text: str) -> None:
    assert fits("IPv4", text) == parses(ipaddress.IPv4Address, text)


@given(st.uuids().map(str), st.integers(0, 35), st.sampled_from("xG -"))
def test_a_uuid_has_hexadecimal_digits_in_its_places(text: str, place: int, other: str) -> None:
    assert fits("UUID", text, text.upper(), uuid.UUID(text).hex, None)
    if other != text[place]:
        assert not fits("UUID", text[:place] + other + text[place + 1 :])


def test_a_fixed_string_has_no_more_bytes_than_its_length() -> None:
    assert fits("FixedString(2)", "ab", "a", "", None, "é")
    assert not fits("FixedString(2)", "é!")
