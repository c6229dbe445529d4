"""Binary encoding of programs and steps, specified in `docs/scan-programs.md`.

Decoding is strict: it returns exactly what was encoded or raises ConfigError. Each program has exactly one encoding.
"""

from __future__ import annotations

from gauss.contracts.cursor import (
    OUT_IDS,
    Agg,
    KeyRange,
    Last,
    Mode,
    OffsetRange,
    Point,
    Prefix,
    Program,
    Seq,
    Step,
    TimeRange,
    View,
)
from gauss.contracts.expression import (
    AGGREGATES,
    MAX_CHARS,
    MAX_NAMES,
    MAX_STAGES,
    Make,
    Select,
    Stage,
    Value,
    plain_name,
)
from gauss.model.errors import ConfigError
from gauss.scan.program.fault import bounded
from gauss.scan.program.nodes import Nodes, write_node
from gauss.scan.program.wire import Reader, Writer

PROGRAM = b"GSP\x01"
STEP = b"GSS\x01"

_MODES = (Mode.SNAPSHOT, Mode.LIVE)
_OUTPUTS = tuple(OUT_IDS)
_VIEWS: tuple[type, ...] = (Seq, OffsetRange, TimeRange, KeyRange, Prefix, Last, Point, Agg)
_LIMIT, _MAX_BYTES, _SEEK_OFFSET, _SEEK_KEY = 1, 2, 3, 4
_FIXED = {16: "the view", 17: "a stage", 18: "the mode"}
"""Tags reserved for parts of a program that a step cannot change."""


def encode_program(program: Program) -> bytes:
    """Encodes a program."""
    out = Writer(PROGRAM)
    out.byte(_MODES.index(program.mode))
    out.byte(_OUTPUTS.index(program.output))
    out.text(program.format)
    out.text(program.text)
    _write_view(out, program.view)
    out.unsigned(len(program.stages))
    for stage in program.stages:
        _write_stage(out, stage)
    return out.done()


def decode_program(blob: bytes) -> Program:
    """Decodes a program and checks its size. Kinds and fields are checked by `bind`."""
    data = Reader(blob, PROGRAM, "program")
    mode = _MODES[data.byte(len(_MODES))]
    output = _OUTPUTS[data.byte(len(_OUTPUTS))]
    format_name, text = data.text(), data.text()
    if len(text) > MAX_CHARS:
        data.fault(f"a program's text may have {MAX_CHARS} characters")
    view = _read_view(data)
    nodes = Nodes(data)
    stages = tuple(_read_stage(data, nodes) for _ in range(data.unsigned(MAX_STAGES)))
    data.end()
    bounded(stages, text)
    return Program(view, mode, output, stages, format_name, text)


def encode_step(step: Step) -> bytes:
    """Encodes a step."""
    out = Writer(STEP)
    out.byte(_LIMIT)
    out.unsigned(step.limit)
    out.byte(_MAX_BYTES)
    out.unsigned(step.max_bytes)
    if isinstance(step.seek, int):
        out.byte(_SEEK_OFFSET)
        out.unsigned(step.seek)
    elif step.seek is not None:
        out.byte(_SEEK_KEY)
        out.text(step.seek)
    return out.done()


def decode_step(blob: bytes) -> Step:
    """Decodes a step. Missing parts have the defaults of `Step`."""
    if blob.startswith(PROGRAM):
        raise ConfigError(
            "a step can't contain a program: it is fixed when the scan is opened", hint="open another scan"
        )
    data = Reader(blob, STEP, "step")
    limit, max_bytes, seek, last = Step.limit, Step.max_bytes, Step.seek, 0
    while data.more():
        tag = data.byte()
        if tag in _FIXED:
            data.fault(f"a step can't change {_FIXED[tag]}: it is fixed when the scan is opened")
        if tag <= last:
            data.fault("the parts of a step must be unique and in ascending order")
        last = tag
        if tag == _LIMIT:
            limit = _positive(data, "limit")
        elif tag == _MAX_BYTES:
            max_bytes = _positive(data, "max_bytes")
        elif tag == _SEEK_OFFSET:
            seek = data.unsigned((1 << 63) - 1)
        elif tag == _SEEK_KEY and seek is None:
            seek = data.text()
        else:
            data.fault(f"unknown part {tag} of a step")
    return Step(limit, max_bytes, seek)


def _positive(data: Reader, name: str) -> int:
    value = data.unsigned((1 << 63) - 1)
    if value == 0:
        data.fault(f"{name} must be above 0")
    return value


def _write_view(out: Writer, view: View) -> None:
    out.byte(_VIEWS.index(type(view)))
    match view:
        case Seq():
            out.optional(view.start)
        case OffsetRange(start=start, stop=stop) | TimeRange(start_ms=start, stop_ms=stop):
            out.unsigned(start)
            out.optional(stop)
        case KeyRange():
            out.optional(view.start)
            out.optional(view.stop)
        case Prefix(prefix=text) | Point(key=text):
            out.text(text)
        case Agg():
            out.unsigned(len(view.aggregates))
            for name, what, of in view.aggregates:
                out.text(name)
                out.byte(AGGREGATES.index(what))
                out.text(of)


def _read_view(data: Reader) -> View:
    kind = _VIEWS[data.byte(len(_VIEWS))]
    if kind is Seq:
        return Seq(data.optional_number())
    if kind is OffsetRange or kind is TimeRange:
        start, stop = data.unsigned((1 << 63) - 1), data.optional_number()
        if stop is not None and stop < start:
            data.fault(f"expected a range with from ≤ to (got {start} to {stop})")
        return OffsetRange(start, stop) if kind is OffsetRange else TimeRange(start, stop)
    if kind is KeyRange:
        return KeyRange(data.optional_text(), data.optional_text())
    if kind is Agg:
        return _read_agg(data)
    if kind is Last:
        return Last()
    return Prefix(data.text()) if kind is Prefix else Point(data.text())


def _read_agg(data: Reader) -> Agg:
    aggregates = []
    for _ in range(data.unsigned(MAX_NAMES)):
        name, what, of = data.text(), AGGREGATES[data.byte(len(AGGREGATES))], data.text()
        if (
            not plain_name(name)
            or (what == "count") != (of == "")
            or not all(map(plain_name, of.split(".") if of else ()))
        ):
            data.fault("an aggregate needs a valid name, and a field unless it is count")
        aggregates.append((name, what, of))
    if not aggregates or len({name for name, _, _ in aggregates}) < len(aggregates):
        data.fault("expected at least one aggregate, with unique names")
    return Agg(tuple(aggregates))


def _write_stage(out: Writer, stage: Stage) -> None:
    match stage:
        case Select():
            out.byte(0)
            out.unsigned(stage.at)
            write_node(out, stage.condition)
        case Make():
            out.byte(1)
            out.unsigned(stage.at)
            out.unsigned(len(stage.columns))
            for name, expr in stage.columns:
                out.text(name)
                write_node(out, expr)
        case Value():
            out.byte(2)
            out.unsigned(stage.at)
            write_node(out, stage.expr)


def _read_stage(data: Reader, nodes: Nodes) -> Stage:
    kind, at = data.byte(3), data.unsigned(MAX_CHARS)
    if kind == 0:
        return Select(nodes.read(), at)
    if kind == 2:
        return Value(nodes.read(), at)
    columns = []
    for _ in range(data.unsigned(MAX_NAMES)):
        if not plain_name(name := data.text()):
            data.fault("invalid column name")
        columns.append((name, nodes.read()))
    if not columns or len({name for name, _ in columns}) < len(columns):
        data.fault("expected at least one column, with unique names")
    return Make(tuple(columns), at)
