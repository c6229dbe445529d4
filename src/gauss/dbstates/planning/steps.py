"""The steps of scripts that psql runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gauss.dbstates.planning.commands import safe_encoding
from gauss.dbstates.planning.files import Files
from gauss.dbstates.planning.options import Item, Options
from gauss.dbstates.planning.plan import Step, digest
from gauss.dbstates.planning.state import State, Uncut
from gauss.dbstates.planning.variables import BEHAVIOUR, Variables
from gauss.dbstates.planning.volatility import Volatility
from gauss.dbstates.planning.walk import Segment, Walk
from gauss.model.errors import ConfigError

SETTINGS = ("PGOPTIONS", "PGTZ", "PGDATESTYLE", "PGCLIENTENCODING", "PGGEQO")
"""Variables of the environment that libpq makes settings of the session."""
KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
_TITLE = 60


class Steps:
    """The steps of one plan, item by item."""

    def __init__(self, options: Options, cwd: Path, env: Mapping[str, str]) -> None:
        self._options, self._cwd, self._env = options, cwd, env
        self._files = Files(cwd)
        self._volatility = Volatility()
        self._items = 0
        self._earlier: frozenset[str] = frozenset()
        self._quotes_text = False
        self._only_settings = ""
        """The title of an item that leaves nothing but settings."""
        self.steps: list[Step] = []
        if "standard_conforming_strings" in env.get("PGOPTIONS", ""):
            raise ConfigError(
                "PGOPTIONS changes standard_conforming_strings: scripts are read with the value on", hint="leave it out"
            )
        if not safe_encoding(env.get("PGCLIENTENCODING", "UTF8").encode()):
            raise ConfigError(
                f"PGCLIENTENCODING is {env['PGCLIENTENCODING']}: a quote can be a part of a letter there",
                hint="convert the scripts to UTF-8",
            )

    def add(self, item: Item, *, cut: bool = True, title: str = "") -> None:
        """Adds the steps of a `-f` or `-c`."""
        self._items += 1
        if self._only_settings:
            raise ConfigError(
                f"{self._only_settings} only changes its session, which ends before the next -f or -c: every one has a "
                "psql of its own",
                hint="put it at the beginning of the script that needs it, or give settings by PGOPTIONS",
            )
        cut = cut and not self._options.single_transaction and not BEHAVIOUR & set(self._options.variables)
        try:
            walk = self._walk(item, cut=cut)
        except Uncut:
            walk = self._walk(item, cut=False)
        state = walk.state
        self._volatility, self._quotes_text = state.volatility, walk.quotes_text
        self._earlier |= state.variables.assigned
        segments = [each for each in walk.segments if not each.content.empty] or walk.segments[:1]
        relevant = _relevant(walk.segments, self._files)
        for segment in segments:
            self._add(segment, item, state, relevant, title)
        if state.session.left and not walk.works:
            self._only_settings = self.steps[-1].title

    def _walk(self, item: Item, *, cut: bool) -> Walk:
        variables = Variables(self._options.variables)
        state = State(self._files, variables, self._env, self._cwd, self._volatility.copy())
        state.cut, state.earlier = cut, self._earlier
        walk = Walk(state, self._quotes_text)
        if item.kind == "c":
            walk.command_line(item.value.encode("utf-8", "surrogateescape"), f"-c {self._items}")
        else:
            state.label, state.line = f"-f {item.value}", 1
            path = self._cwd / item.value
            walk.file(path, str(path))
        return walk

    def _add(self, segment: Segment, item: Item, state: State, relevant: Mapping[Path, str], title: str) -> None:
        content, shared = segment.content, self._options.command()
        if self._options.single_transaction:
            content.name("flag", "-1", "")
            content.add("flag", "-1")
        for name in sorted(BEHAVIOUR & set(self._options.variables)):
            content.name("variable", name, self._options.variables[name])
            content.add("variable", name, self._options.variables[name] or "")
        for name in SETTINGS:
            if name in self._env:
                content.name("environment", name, self._env[name])
                content.add("environment", name, self._env[name])
        stdin = None
        if item.kind == "c":
            command = (*shared, "-c", item.value)
        elif segment.whole:
            command = (*shared, "-f", str(segment.script.path))
        else:
            command, stdin = (*shared, "-f", "-"), segment.text
        kept = {*KEPT, *SETTINGS, *state.read_env}
        self.steps.append(
            Step(
                number=len(self.steps) + 1,
                title=title or _title(segment, item),
                command=command,
                stdin=stdin,
                content=digest("psql", *content.parts),
                inputs=content.inputs(relevant),
                ingredients=content.ingredients(),
                marks=tuple(content.marks),
                cwd=str(self._cwd),
                env=tuple((name, value) for name, value in sorted(self._env.items()) if name in kept),
            )
        )


def _title(segment: Segment, item: Item) -> str:
    if item.kind == "c":
        words = item.value.split()
        # What follows may be a password.
        shown = " ".join(words[:2]) + (" …" if len(words) > 2 else "")
        return f"-c '{shown[:_TITLE]}'"
    if segment.whole:
        return segment.script.label
    lines = [line for line, _ in segment.content.lines.get(segment.script.label, [])]
    if not lines:
        return segment.script.label
    return f"{segment.script.label}:{lines[0]}" + (f"-{lines[-1]}" if lines[-1] != lines[0] else "")


def _relevant(segments: list[Segment], files: Files) -> dict[Path, str]:
    """The hash of what is relevant of each script, whatever step it is in."""
    lines: dict[str, list[str]] = {}
    for segment in segments:
        for label, found in segment.content.lines.items():
            lines.setdefault(label, []).extend(value for _, value in found)
    return {script.path: digest(*lines.get(script.label, ())) for script in files.scripts()}
