"""Random trees of SQL scripts, and mutations of them that are relevant to the resulting database or not."""

from __future__ import annotations

import copy
import pickle
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

_TEXTS = ("a  b", "it''s -- no comment", "x;\n\\i none.sql", "/* c */", "$$ :n :v", "é", "tab\there", "\\restrict x")
_PUNCTUATION = set("(),;")
_GAPS = (" ", "\n", "\t", "  ", "\r\n", " -- it's; $$ \\i x\n", "/* a /* ; ' */ \" */", "\f", " /**/ ", "\n--\n")


@dataclass
class Sql:
    """A statement by tokens."""

    tokens: list[str]


@dataclass
class Rows:
    """COPY … FROM stdin with its rows."""

    table: str
    rows: list[str]


@dataclass
class Copy:
    """\\copy from a file."""

    table: str
    file: str


@dataclass
class Include:
    file: str
    relative: bool


@dataclass
class Line:
    """A backslash command with arguments."""

    name: str
    arguments: list[str]


@dataclass
class If:
    condition: str
    nodes: list[Node]


Node = Sql | Rows | Copy | Include | Line | If


@dataclass
class Tree:
    """Scripts by name, data files, and the arguments of psql."""

    scripts: dict[str, list[Node]]
    data: dict[str, str]
    variables: dict[str, str]
    env: dict[str, str] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)
    layouts: dict[str, int] = field(default_factory=dict)
    """The seed of each script's layout."""

    def args(self) -> list[str]:
        given = [each for name, value in self.variables.items() for each in ("-v", f"{name}={value}")]
        return [*self.options, *given, "-f", "main.sql"]

    def write(self, folder: Path, written: dict[str, str]) -> None:
        """Writes the files, except those that are in the folder already."""
        texts = {name: render(nodes, random.Random(self.layouts.get(name))) for name, nodes in self.scripts.items()}
        for name, text in {**texts, **self.data}.items():
            if written.get(name) != text:
                (folder / name).write_bytes(text.encode())
                written[name] = text


def render(nodes: list[Node], layout: random.Random) -> str:
    """The text of a script, with spaces and comments where they do not count."""
    return "".join(_node(each, layout) + layout.choice(("", "\n", "  -- c\n", "\n/* ' */\n")) for each in nodes)


def _node(node: Node, layout: random.Random) -> str:
    match node:
        case Sql():
            return _gap(layout, "", "") + _tokens(node.tokens, layout) + _gap(layout, "", ";") + ";\n"
        case Rows():
            head = _tokens(["COPY", node.table, "(", "s", ")", "FROM", "stdin"], layout)
            return (
                head
                + ";"
                + layout.choice(("", " ", " -- rows"))
                + "\n"
                + "".join(f"{r}\n" for r in node.rows)
                + "\\.\n"
            )
        case Copy():
            return f"\\copy {node.table}{layout.choice(('', ' '))}(s) from{layout.choice(('  ', ' '))}'{node.file}'\n"
        case Include():
            name = layout.choice(("i", "include") if not node.relative else ("ir", "include_relative"))
            return (
                f"{layout.choice(('', '  '))}\\{name} {layout.choice(('', ' '))}{node.file}{layout.choice(('', ';'))}\n"
            )
        case Line():
            return f"\\{node.name} " + layout.choice((" ", "  ")).join(node.arguments) + "\n"
        case If():
            return f"\\if {node.condition}\n{render(node.nodes, layout)}\n\\endif\n"


def _tokens(tokens: list[str], layout: random.Random) -> str:
    parts = [tokens[0]]
    for before, after in pairwise(tokens):
        # Between two literals, whitespace counts, and is a part of the second one.
        parts += [_gap(layout, before, after) if after[0] not in " \n" else "", after]
    return "".join(parts)


def _gap(layout: random.Random, before: str, after: str) -> str:
    free = before in _PUNCTUATION or after in _PUNCTUATION or not before or not after
    if free and layout.random() < 0.5:
        return ""
    gap = layout.choice(_GAPS)
    return gap if free or gap.strip(" \t\f") != "" or gap else " "


def random_tree(chance: random.Random) -> Tree:
    """A tree of two or three scripts that Postgres can run, with the same result in each run."""
    names = ["main.sql", *(f"part{i}.sql" for i in range(chance.randint(1, 2)))]
    tree = Tree({}, {"rows.txt": "one\ntwo -- 2\n"}, {"n": str(chance.randint(1, 9)), "v": "it's", "unread": "x"})
    tree.env = {"GIVEN": "from the environment", "UNREAD": "x"}
    for number, name in enumerate(names):
        table = f"t{number}"
        nodes: list[Node] = [
            Sql(["CREATE", "TABLE", table, "(", "id", "serial", ",", "s", "text", ",", "n", "int", ")"])
        ]
        nodes += [_random_node(chance, table, number) for _ in range(chance.randint(2, 4))]
        tree.scripts[name] = nodes
        tree.layouts[name] = chance.randrange(10**9)
    for number, name in enumerate(names[1:], 1):
        outer = tree.scripts[names[chance.randrange(number)]]
        outer.insert(chance.randint(0, len(outer)), Include(name, chance.random() < 0.5))
    return tree


def _random_node(chance: random.Random, table: str, number: int) -> Node:
    text = "'" + chance.choice(_TEXTS) + "'"
    body = f"$f$ SELECT 1 -- {chance.choice('abc')}\n$f$"
    insert = ["INSERT", "INTO", table, "(", "s", ",", "n", ")", "VALUES", "("]
    kind = chance.randrange(14)
    if kind < 3:
        return Sql([*insert, text, ",", chance.choice(("1", ":n", "2")), ")"])
    if kind == 3:
        return Sql([*insert, "'a'", "\n'b'", ",", "1", ")"])
    if kind == 4:
        return Sql([*insert, chance.choice((":'v'", "E'a\\'b'", "$$ a  b $$", "$x$ $$ ; $x$")), ",", ":n", ")"])
    if kind == 5:
        return Rows(table, [chance.choice(("x", "it's", "-- c", "\\\\i none")) for _ in range(2)])
    if kind == 6:
        return Copy(table, "rows.txt")
    if kind == 7:
        name = f"f{number}_{chance.randrange(10**6)}"
        head = ["CREATE", "FUNCTION", name, "(", ")", "RETURNS", "int", "LANGUAGE", "sql", "AS"]
        return Sql([*head, body])
    if kind == 8:
        return Sql(["COMMENT", "ON", "TABLE", table, "IS", text])
    if kind == 9:
        return If(chance.choice(("true", "false", ":n")), [Sql([*insert, text, ",", "3", ")"])])
    if kind == 10:
        return Line("set", [f"w{number}", chance.choice(("'a b'", "5", ":n"))])
    if kind == 11:
        return Sql(["UPDATE", table, "SET", "n", "=", "n", "+", "1", "WHERE", "s", "<>", text])
    if kind == 12:
        return Line("getenv", [f"e{number}", "GIVEN"])
    return Sql(["DO", f"$d$ BEGIN INSERT INTO {table} (s) VALUES ('x'); /* {chance.choice('ab')} */ END $d$"])


def irrelevant(tree: Tree, chance: random.Random) -> Tree:
    """A tree that gives the same database; its layout, too, may be another one."""
    found: Tree = pickle.loads(pickle.dumps(tree))  # much faster than a deep copy
    for _ in range(chance.randint(1, 2)):
        found.layouts[chance.choice(list(found.scripts))] = chance.randrange(10**9)
    for node in _all(found):
        if isinstance(node, Include) and chance.random() < 0.3:
            node.relative = not node.relative
    match chance.randrange(5):
        case 0:
            found.variables["unread"] = "y"
        case 1:
            found.env["UNREAD"] = "y"
        case 2:
            found.options = ["-q", "-e"]
        case 3 if "rows.txt" in found.data:
            found.data["moved.txt"] = found.data.pop("rows.txt")
            for node in _all(found):
                if isinstance(node, Copy):
                    node.file = "moved.txt"
    return found


def relevant(tree: Tree, chance: random.Random) -> Tree | None:
    """A tree that gives another database, or may give one; None if the chosen change does not exist in the tree."""
    found: Tree = pickle.loads(pickle.dumps(tree))
    return found if chance.choice(_CHANGES)(found, chance) else None


def _all(tree: Tree) -> list[Node]:
    nodes = [each for some in tree.scripts.values() for each in some]
    return nodes + [each for node in nodes if isinstance(node, If) for each in node.nodes]


def _executed(tree: Tree) -> list[Node]:
    nodes = [each for some in tree.scripts.values() for each in some]
    return nodes + [e for node in nodes if isinstance(node, If) and _true(tree, node.condition) for e in node.nodes]


def _true(tree: Tree, condition: str) -> bool:
    return condition == "true" or (condition == ":n" and tree.variables["n"] == "1")


def _in_tokens(tree: Tree, chance: random.Random, pattern: str, change: Callable[[str], str]) -> bool:
    places = [
        (node, i)
        for node in _executed(tree)
        if isinstance(node, Sql)
        for i, token in enumerate(node.tokens)
        if re.search(pattern, token)
    ]
    if not places:
        return False
    node, at = chance.choice(places)
    node.tokens[at] = change(node.tokens[at])
    return True


def _number(tree: Tree, chance: random.Random) -> bool:
    return _in_tokens(tree, chance, r"^\d$", lambda token: token + "1")


def _literal(tree: Tree, chance: random.Random) -> bool:
    return _in_tokens(tree, chance, r"^\n?'", lambda token: token[:-1] + chance.choice((" ", "x", "--", "\n")) + "'")


def _space_in_literal(tree: Tree, chance: random.Random) -> bool:
    return _in_tokens(tree, chance, r"^['$].* ", lambda token: token.replace(" ", "  ", 1))


def _comment_in_body(tree: Tree, chance: random.Random) -> bool:
    return _in_tokens(tree, chance, r"^\$[fd]\$", lambda token: token.replace("--", "-- not").replace("/*", "/* not"))


def _joined_literals(tree: Tree, chance: random.Random) -> bool:
    return _in_tokens(tree, chance, r"^\n'", lambda token: " " + token[1:])


def _statement(tree: Tree, chance: random.Random) -> bool:
    script = tree.scripts[chance.choice(list(tree.scripts))]
    places = [i for i, node in enumerate(script) if isinstance(node, (Sql, Rows, Copy)) and i]
    if not places:
        return False
    at = chance.choice(places)
    if chance.random() < 0.5:
        del script[at]
    else:
        script.insert(at, copy.deepcopy(script[at]))
    return True


def _row(tree: Tree, chance: random.Random) -> bool:
    found = [node for node in _executed(tree) if isinstance(node, Rows)]
    if found:
        rows = chance.choice(found).rows
        rows[0] += chance.choice((" ", "x", " -- c"))
    return bool(found)


def _data(tree: Tree, _: random.Random) -> bool:
    tree.data["rows.txt"] += "three\n"
    return any(isinstance(node, Copy) for node in _executed(tree))


def _variable(tree: Tree, _: random.Random) -> bool:
    tree.variables["v"] += "x"
    return any(isinstance(node, Sql) and ":'v'" in node.tokens for node in _executed(tree))


def _plain_variable(tree: Tree, _: random.Random) -> bool:
    tree.variables["n"] += "7"
    return any(isinstance(node, Sql) and ":n" in node.tokens for node in _executed(tree))


def _environment(tree: Tree, _: random.Random) -> bool:
    tree.env["PGOPTIONS"] = "-c work_mem=8MB"
    return True


def _single(tree: Tree, _: random.Random) -> bool:
    tree.options = ["-1"]
    return True


def _set(tree: Tree, chance: random.Random) -> bool:
    found = [node for node in _executed(tree) if isinstance(node, Line) and node.name == "set"]
    if found:
        chance.choice(found).arguments[1] = "other"
    return bool(found)


def _condition(tree: Tree, chance: random.Random) -> bool:
    found = [node for node in _all(tree) if isinstance(node, If)]
    if found:
        node = chance.choice(found)
        node.condition = "false" if _true(tree, node.condition) else "true"
    return bool(found)


_CHANGES = (
    *(_number, _literal, _space_in_literal, _comment_in_body, _joined_literals, _statement, _row, _data, _variable),
    *(_plain_variable, _environment, _single, _set, _condition),
)
