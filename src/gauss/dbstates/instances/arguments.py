"""Arguments of the tools that run on an instance: they may not name a connection, for the instance has its own."""

from __future__ import annotations

import getopt
from collections.abc import Sequence
from dataclasses import dataclass

from gauss.model.errors import ConfigError


@dataclass(frozen=True)
class _Options:
    """The options of a program as getopt takes them; those with a value are followed by `:` or `=`."""

    short: str
    long: str

    def long_names(self) -> list[str]:
        return self.long.split()


_TOOLS = {
    "psql": _Options(
        "aAbc:d:eEf:F:h:HlL:no:p:P:qR:sStT:U:v:VwWxXz01?",
        "echo-all no-align echo-errors command= dbname= echo-queries echo-hidden file= field-separator= host= html "
        "list log-file= no-readline output= port= pset= quiet record-separator= single-step single-line tuples-only "
        "table-attr= username= set= variable= version no-password password expanded no-psqlrc field-separator-zero "
        "record-separator-zero single-transaction csv help",
    ),
    "pgbench": _Options(
        "ib:c:CdD:f:F:h:I:j:lL:M:nN:p:P:qrR:s:St:T:U:vV?",
        "aggregate-interval= builtin= client= connect dbname= debug define= exit-on-abort failures-detailed file= "
        "fillfactor= foreign-keys help host= index-tablespace= init-steps= initialize jobs= latency-limit= log "
        "log-prefix= max-tries= no-vacuum partition-method= partitions= port= progress= progress-timestamp protocol= "
        "quiet random-seed= rate= report-per-command sampling-rate= scale= select-only show-script= skip-some-updates "
        "tablespace= time= transactions= unlogged-tables username= vacuum-all verbose-errors version",
    ),
}
_CONNECTION = frozenset(["-h", "--host", "-p", "--port", "-U", "--username", "-d", "--dbname", "-W", "--password"])


def check_arguments(tool: str, args: Sequence[str]) -> None:
    """Raises ConfigError for an argument that names a server, a user or a database, in whatever form."""
    known = _TOOLS[tool]
    try:
        options, rest = getopt.gnu_getopt(list(args), known.short, known.long_names())
    except getopt.GetoptError as error:
        raise ConfigError(f"arguments of {tool}: {error.msg}", hint=f"{tool} --help lists them") from None
    named = [name for name, _ in options if name in _CONNECTION]
    named += [f"{each!r}, which {tool} would take for a database or a user," for each in rest]
    if named:
        raise ConfigError(
            f"{named[0]} names a connection, and the instance has its own", hint="leave out -h, -p, -U, -d and -W"
        )
