"""What a statement leaves in the session that runs it, and what it reads from one.

A script may be cut into steps, each with a session of its own, only where that is provably the same. So statements and
functions are allowed by name, and everything else is taken to leave something behind.
"""

from __future__ import annotations

from itertools import pairwise

from gauss.dbstates.planning.known_names import CALLABLE, CONTEXT, EXTENSIONS
from gauss.dbstates.planning.lexer import Unterminated, normalized, token_words, words

_DATA = words("select insert update delete merge with values table copy truncate explain call do")
_HARMLESS = words(
    "comment grant revoke drop analyze vacuum cluster reindex refresh lock notify security reassign savepoint release "
    "checkpoint"
)
_CREATED = words(
    "table view index sequence type domain schema trigger function procedure materialized policy rule aggregate "
    "operator cast collation role user group statistics conversion text publication access unique unlogged recursive "
    "constraint or"
)
_ALTERED = words(
    "table view index sequence type domain schema trigger function procedure routine materialized policy rule "
    "aggregate operator collation default statistics conversion text publication foreign extension large constraint"
)
_READS = token_words("currval lastval setseed pg_backend_pid pg_my_temp_schema pg_listening_channels")
_LEAVES = token_words("temp temporary pg_temp hold set_config")
_IN_BODY = token_words("execute prepare deallocate discard listen unlisten load reset copy call dblink")
_LANGUAGES = words("sql plpgsql")
_STARTS = frozenset([b";", b"begin", b"then", b"else", b"loop", b">>"])


class Session:
    """What the statements so far have left in a session."""

    def __init__(self) -> None:
        self._functions: set[bytes] = set()
        """Functions that are defined by the statements and leave nothing behind."""
        self.left = ""
        self.in_transaction = False
        self.restricted = False

    @property
    def clean(self) -> bool:
        """Whether a new session in place of this one makes no difference."""
        return not (self.left or self.in_transaction or self.restricted)

    def leave(self, what: str) -> None:
        """Notes that something stays in the session."""
        self.left = self.left or what

    def run(self, tokens: list[bytes]) -> str:
        """Follows a statement; returns what it reads of the session that forbids to cut it anywhere before."""
        reads = ""
        for each in split(tokens):
            lowered = [token.lower() for token in each]
            reads = reads or self._read(lowered)
            self._follow(lowered, each)
        return reads

    def _read(self, lowered: list[bytes]) -> str:
        for some in (lowered, *(_body(token) for token in lowered if token[:1] == b"$" and len(token) > 2)):
            for found in _READS.intersection(some):
                return _word(found)
        return ""

    def _follow(self, lowered: list[bytes], tokens: list[bytes]) -> None:
        first = lowered[0].decode("latin-1")
        second = lowered[1].decode("latin-1") if len(lowered) > 1 else ""
        if first in ("begin", "start"):
            self.in_transaction = True
        elif first in ("commit", "end", "rollback", "abort"):
            if "to" not in map(_word, lowered[:4]):
                self.in_transaction = "chain" in map(_word, lowered) and "no" not in map(_word, lowered)
            if second == "prepared":
                self.leave("a prepared transaction")
        elif not self.left:
            self.left = self._leaves(first, second, lowered, tokens)

    def _leaves(self, first: str, second: str, lowered: list[bytes], tokens: list[bytes]) -> str:
        if not _LEAVES.isdisjoint(token.strip(b'"') for token in lowered):
            return "a temporary object or a setting"
        if first == "set":
            allowed = second in ("local", "constraints", "transaction")
            return "" if allowed else "a setting"
        if first == "create":
            found = self._creates(lowered, tokens)
        elif first == "alter":
            found = "" if second in _ALTERED else f"ALTER {second.upper()}"
        elif first == "do":
            found = self._body_leaves(tokens)
        else:
            found = "" if first in _DATA or first in _HARMLESS else first.upper()
        return found or self._caches(lowered) or self._calls(lowered)

    def _creates(self, lowered: list[bytes], tokens: list[bytes]) -> str:
        kinds = [_word(token) for token in lowered[1:5]]
        if kinds[:1] == ["or"]:
            kinds = kinds[2:]
        if kinds[:1] == ["extension"]:
            named = [token.strip(b'"') for token in lowered[2:] if token not in (b"if", b"not", b"exists")]
            known = bool(named) and named[0].decode("latin-1") in EXTENSIONS
            return "" if known else "an extension"
        if not kinds or kinds[0] not in _CREATED or (kinds[0] == "access"):
            return "CREATE " + " ".join(kinds[:1]).upper()
        if kinds[0] in ("function", "procedure"):
            return self._defines(lowered, tokens)
        return ""

    def _defines(self, lowered: list[bytes], tokens: list[bytes]) -> str:
        at = lowered.index(b"(") if b"(" in lowered else 0
        name = lowered[at - 1].strip(b'"')
        languages = [lowered[i + 1].strip(b"'\"") for i, token in enumerate(lowered[:-1]) if token == b"language"]
        if languages and any(_word(each) not in _LANGUAGES for each in languages):
            return "a function in another language"
        self._functions.add(name)
        if b"atomic" in lowered:
            return self._code_leaves(lowered[lowered.index(b"atomic") + 1 :])
        return self._body_leaves(tokens)

    def _body_leaves(self, tokens: list[bytes]) -> str:
        for token in tokens:
            if token[:1] not in (b"$", b"'", b"e", b"E") or len(token) < 3 or not token.endswith((b"$", b"'")):
                continue
            if found := self._code_leaves([each.lower() for each in _body(token)]):
                return found
        return ""

    def _code_leaves(self, lowered: list[bytes]) -> str:
        for before, word in zip([b";", *lowered], lowered, strict=False):
            if word.strip(b'"') in _LEAVES or word in _IN_BODY or (word == b"set" and before in _STARTS):
                return f"a function with {_word(word).upper()}"
        return self._calls(lowered)

    def _caches(self, lowered: list[bytes]) -> str:
        """A sequence with a cache: a session takes several values at once, and the next one begins behind them."""
        if b"cache" not in lowered:
            return ""
        for token, after in pairwise(lowered):
            if token == b"cache" and after != b"1":
                return "a sequence with a cache"
        return ""

    def _calls(self, lowered: list[bytes]) -> str:
        """A function that is not known to leave nothing behind."""
        indexes = lowered[:1] == [b"create"] and b"on" in lowered[:12]
        for i, token in enumerate(lowered):
            if token != b"(" or not i:
                continue
            name = lowered[i - 1]
            if not (name[:1].isalpha() or name[:1] in b'_"' or name[0] > 127) or _word(name) in CALLABLE:
                continue
            if name.strip(b'"') in self._functions:
                continue
            at = i - 2
            while at > 0 and lowered[at] == b".":
                at -= 2
            before = _word(lowered[at]) if at >= 0 else ""
            if before in CONTEXT or (before == "on" and indexes):
                continue
            return f"{_word(name)}()"
        return ""


def split(tokens: list[bytes]) -> list[list[bytes]]:
    """The statements of a text that the server gets as one."""
    if b";" not in tokens or any(token.lower() == b"atomic" for token in tokens):
        return [tokens] if tokens else []
    found: list[list[bytes]] = [[]]
    for token in tokens:
        if token == b";":
            found.append([])
        else:
            found[-1].append(token)
    return [each for each in found if each]


def _word(token: bytes) -> str:
    return token.decode("latin-1")


def _body(token: bytes) -> list[bytes]:
    """The tokens of a function's body, given as a literal."""
    opening = token[: token.find(b"$", 1) + 1] if token[:1] == b"$" else b"'"
    text = token[len(opening) : -len(opening)] if token[:1] == b"$" else token.strip(b"eE'").replace(b"''", b"'")
    try:
        return normalized(text)
    except Unterminated:
        return [b"execute"]  # it can't be read, so nothing is known of it
