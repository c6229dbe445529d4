"""Runs one schema map in a process of its own, which may neither take much memory nor run for long: a single
expression such as `"a" * 2000000000` would end whoever evaluates it.

Run as a file, with a request as JSON on its standard input; the answer is JSON on its standard output. It imports
nothing of Gauss, so that it is up at once.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

import starlark

HELPERS = """
def column(name, type, source = None, props = None, **attrs):
    made = {"name": name, "field_type": {"name": type, "attrs": attrs}}
    if source != None:
        made["source"] = source
    if props != None:
        made["props"] = props
    return made
"""
"""Predeclared for every script: `column("bid", "Decimal64", source = "bid", scale = 8)`."""
STEPS_PER_CHECK = 1_000
"""Number of loop iterations between two checks of the limits."""


def evaluate(request: dict[str, Any]) -> dict[str, Any]:
    """The result as `made`, or `error` with Starlark's message, or `endless`."""
    steps = 0

    def used_up() -> bool:
        nonlocal steps
        steps += STEPS_PER_CHECK
        return steps > int(request["max_steps"])

    options = starlark.EvalOptions(check_cancelled=used_up, max_callstack_size=int(request["max_depth"]))
    try:
        library = starlark.Globals.standard()
        module = starlark.Module()
        starlark.eval(module, starlark.parse("column.star", HELPERS), library)
        starlark.eval_with(options, module, starlark.parse(request["name"], request["text"]), library)
        if "source" not in request:  # only check that the function exists
            starlark.eval(module, starlark.parse("check.star", "type(map_schema)"), library)
            return {"made": None}
        made = module.freeze().call_with(options, "map_schema", request["source"], request["target"]).value
    except starlark.StarlarkError as error:
        return {"endless": True} if used_up() else {"error": str(error)}
    return {"made": made}


def main() -> None:
    request = json.load(sys.stdin)
    for kind, limit in (
        (resource.RLIMIT_AS, int(request["max_bytes"])),
        (resource.RLIMIT_CPU, int(request["max_seconds"])),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
    json.dump(evaluate(request), sys.stdout, default=str)


if __name__ == "__main__":
    main()
