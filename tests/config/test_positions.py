"""Every key that tomli reads has a position, and nothing else has one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.config.positions import KeyPath, find_positions
from helpers.cases import cases


def paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*path, index))


SCALARS = st.one_of(
    st.sampled_from(
        [
            "1",
            "-2.5e3",
            "true",
            "1979-05-27 07:32:00",
            "0x_bad".replace("_", ""),
            "'a]}#,b'",
            '"x = [1] # no \\" comment"',
            '"""two\nlines ""quoted"" """',
            '"""ends in quotes"""""',
            "'''raw\n''two'' \\'''",
            '""',
        ]
    )
)
BARE = st.from_regex(r"[a-zA-Z0-9_-]{1,6}", fullmatch=True)
QUOTED = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6)
SPACE = st.sampled_from(["", " ", "\t "])
BREAK = st.sampled_from(["", " ", "\n", " # a comment, ] } = \n  "])


@st.composite
def keys(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return draw(BARE)
    text = draw(QUOTED)
    if draw(st.booleans()) and "'" not in text:
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=draw(st.booleans()) and all(ord(char) < 0x10000 for char in text))


@st.composite
def values(draw: st.DrawFn, depth: int = 3) -> str:
    kind = draw(st.sampled_from(["scalar", "array", "table"])) if depth else "scalar"
    if kind == "scalar":
        return draw(SCALARS)
    gap = draw(BREAK)
    trailing = draw(st.booleans())
    if kind == "array":
        items = draw(st.lists(values(depth - 1), max_size=3))
        tail = "," if items and trailing else ""
        return f"[{gap}{f',{gap}'.join(items)}{tail}{gap}]"
    pairs = draw(st.dictionaries(keys(), values(depth - 1), max_size=3))
    tail = "," if pairs and trailing else ""
    body = f",{gap}".join(f"{key}{draw(SPACE)}={draw(SPACE)}{value}" for key, value in pairs.items())
    return f"{{{gap}{body}{tail}{gap}}}"


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines: list[str] = []
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["pair", "pair", "table", "array", "comment"]))
        dotted = f"{draw(SPACE)}.{draw(SPACE)}".join(draw(st.lists(keys(), min_size=1, max_size=3)))
        if kind == "pair":
            lines.append(f"{draw(SPACE)}{dotted} = {draw(values())}{draw(st.sampled_from(['', ' # note']))}")
        elif kind == "table":
            lines.append(f"[{dotted}]")
        elif kind == "array":
            lines.append(f"[[{draw(SPACE)}{dotted} ]]")
        else:
            lines.append("# [not] = 'a table'")
    return draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(lines)


@given(documents())
@settings(max_examples=cases(100), deadline=None)
def test_positions_name_exactly_the_paths_that_tomli_reads(text: str) -> None:
    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError:
        return  # a duplicate key; the scanner sees only text that tomli accepts
    assert set(find_positions(text)) == set(paths(data))


def test_positions_point_at_keys_in_multi_line_inline_tables() -> None:
    text = "[[a]]\nx = 1\n[[a]]\nconfig = {\n    port = 9100, # why\n    input = { framing = 'newline' },\n}\n"
    found = find_positions(text)
    assert found["a", 0] == (1, 1)
    assert found["a", 1] == (3, 1)
    assert found["a", 1, "config", "port"] == (5, 5)
    assert found["a", 1, "config", "input", "framing"] == (6, 15)


def test_sub_table_of_an_array_belongs_to_its_last_element() -> None:
    found = find_positions("[[p]]\n[p.source]\ntopic = 'a'\n[[p]]\n[p.source]\ntopic = 'b'\n")
    assert found["p", 0, "source", "topic"].line == 3
    assert found["p", 1, "source", "topic"].line == 6


def test_array_elements_stand_where_their_values_begin() -> None:
    found = find_positions("fields = [\n  { name = 'a' },\n  { name = 'b' },\n]\n")
    assert found["fields", 1] == (3, 3)
    assert found["fields", 1, "name"] == (3, 5)
