from __future__ import annotations

import logging
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from gauss.cli import complete
from gauss.cli.output import JsonOption, Output
from gauss.model.errors import ConfigError


def command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Pipelines, their NAME.test.toml, or folders of such; default: here.", autocompletion=complete.files
        ),
    ] = None,
    case: Annotated[str | None, typer.Option("--case", help="Only the case of this name.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write the results as JUnit XML.")] = None,
    json: JsonOption = False,
) -> None:
    """Runs the cases beside a pipeline on the real engine and Spark, without its sockets.

    Cases of pipeline.toml stand in pipeline.test.toml: records that are sent, and exactly what must come of them.

    Examples: gauss test pipeline.toml · gauss test examples --junit results.xml · gauss test . --case "a late quote"

    Exit codes: 0 all passed, 1 a case failed or a file has faults.
    """
    from gauss.stream.flowtest.judge import find_test_files, read_suites
    from gauss.stream.flowtest.junit import write_junit
    from gauss.stream.flowtest.run import run_suites

    # What is killed and restarted on purpose is no news for the terminal.
    logging.getLogger("gauss").addHandler(logging.NullHandler())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not by default: what was started and made would stay
    output = Output(json=json)
    began = time.monotonic()
    suites = read_suites(find_test_files(files or [Path()]))
    results = []
    for result in run_suites(suites, case):
        results.append(result)
        output.line(
            f"test {result.name} … {'passed' if result.passed else 'failed'} ({result.seconds:.1f} s)",
            style="green" if result.passed else "red",
        )
        sys.stdout.flush()
    failed = [result for result in results if not result.passed]
    for result in failed:
        output.line()
        output.line(f"{result.file}: {result.name}", style="bold red")
        for problem in result.problems:
            output.line(f"  {str(problem).replace(chr(10), chr(10) + '  ')}")
    seconds = time.monotonic() - began
    output.line()
    output.line(f"{len(results) - len(failed)} passed, {len(failed)} failed in {seconds:.1f} s")
    output.data(
        {
            "passed": len(results) - len(failed),
            "failed": len(failed),
            "seconds": round(seconds, 3),
            "cases": [result.to_dict() for result in results],
        }
    )
    if junit is not None:
        try:
            write_junit(results, junit)
        except OSError as error:
            raise ConfigError(f"--junit: can't write {junit}: {error.strerror}") from error
    if failed:
        raise typer.Exit(1)
