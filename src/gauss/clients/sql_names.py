"""The column names in an SQL expression, checked against the columns of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gauss.config.validate import did_you_mean
from gauss.model.errors import ConfigError

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*')
      | (?P<quoted>`(?:[^`\\]|\\.)*`|"(?:[^"\\]|\\.)*")
      | (?P<number>\d[\w.]*)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign>->|::|\S)""",
    re.VERBOSE,
)
_UNITS = "nanosecond microsecond millisecond second minute hour day week month quarter year"
_WORDS = frozenset(
    f"""and or not in is null like ilike between case when then else end as asc desc nulls first last true false inf nan
    interval div mod any all distinct cast from for at time zone both leading trailing collate using delete where group
    by set to disk volume recompress codec default stored current_date current_time current_timestamp localtime
    localtimestamp current_user session_user {_UNITS} {" ".join(unit + "s" for unit in _UNITS.split())}""".split()
)


def check_columns(where: str, sql: str, columns: Iterable[str], *, folds: bool = False) -> None:
    """Raises ConfigError for the first name in an expression that is not a column. `folds`: unquoted names fold to
    lower case, as in Postgres."""
    known = list(columns)
    for name, quoted in _names(sql):
        if name in known or (not quoted and folds and name.lower() in known):
            continue
        if not quoted and name.lower() in _WORDS:
            continue
        raise ConfigError(
            f'{where}: the table has no column "{name}"',
            hint=did_you_mean(name, known) or f"its columns are {', '.join(known)}",
        )


def _names(sql: str) -> Iterator[tuple[str, bool]]:
    """Names where columns can be, and whether each is quoted. Functions, members of a column and types of casts are
    left out; an expression with a lambda, whose arguments are names too, yields nothing."""
    tokens = [(match.lastgroup, match.group()) for match in _TOKEN.finditer(sql)]
    if ("sign", "->") in tokens:
        return
    for place, (kind, text) in enumerate(tokens):
        before = tokens[place - 1][1].lower() if place else ""
        after = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        if kind not in ("word", "quoted") or after == "(" or before in (".", "::", "as", "collate"):
            continue
        yield (text[1:-1], True) if kind == "quoted" else (text, False)
