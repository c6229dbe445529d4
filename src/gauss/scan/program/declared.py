"""Checks a program against the capabilities that a source declares."""

from __future__ import annotations

from gauss.contracts.cursor import VIEW_TEXTS, Capabilities, Mode, Output, Program
from gauss.contracts.expression import Binary, Call, Expr, If, Make, Select, Unary, Value, expressions, walk
from gauss.scan.program.fault import ProgramFault, fault

_STAGE_OPS = {Select: "select", Make: "{}", Value: "value"}


def check_declared(program: Program, capabilities: Capabilities) -> None:
    """Raises ConfigError for an undeclared view, mode, output, operation or function."""
    text = program.text
    begin = len(text) - len(text.lstrip())
    if type(program.view) not in capabilities.views:
        known = ", ".join(words for view, words in VIEW_TEXTS.items() if view in capabilities.views)
        asked = VIEW_TEXTS[type(program.view)]
        raise fault(text, begin, f"the source does not declare the view {asked}", f"it declares: {known}")
    if program.output not in capabilities.outputs:
        known = ", ".join(sorted(output.value for output in capabilities.outputs))
        raise fault(text, begin, f"the source does not declare the output {program.output.value}", f"it has: {known}")
    if program.mode is Mode.LIVE and not capabilities.live:
        raise fault(text, begin, "the source can't be read live", "read a snapshot")
    if program.output is Output.CHUNKS and program.stages:
        raise fault(text, program.stages[0].at, "offset_len returns records as stored, without stages", "use rows")
    for stage in program.stages:
        if capabilities.ops is not None and _STAGE_OPS[type(stage)] not in capabilities.ops:
            raise _undeclared(text, stage.at, _STAGE_OPS[type(stage)], capabilities.ops)
        for root in expressions(stage):
            for node in walk(root):
                _check_node(text, node, capabilities)


def _check_node(text: str, node: Expr, capabilities: Capabilities) -> None:
    match node:
        case Call(name=name):
            op, declared = name, capabilities.builtins
        case Unary(op=op) | Binary(op=op):
            declared = capabilities.ops
        case If():
            op, declared = "if", capabilities.ops
        case _:
            return
    if declared is not None and op not in declared:
        raise _undeclared(text, node.at, op, declared)


def _undeclared(text: str, at: int, op: str, declared: frozenset[str]) -> ProgramFault:
    return fault(text, at, f"the source does not declare {op}", f"it declares: {', '.join(sorted(declared))}")
