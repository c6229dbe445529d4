from __future__ import annotations

import logging
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption
from gauss.model.errors import ConfigError


def command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Pipelines, their NAME.test.toml, or folders. Default: the current folder.",
            autocompletion=complete.files,
        ),
    ] = None,
    case: Annotated[str | None, typer.Option("--case", help="Run only the case with this name.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write the results as JUnit XML.")] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Run the test cases of a pipeline on the real engine and Spark, without its sockets.

    The cases of pipeline.toml are in pipeline.test.toml: records to send, and the exact expected results. Each case has
    a clone of its own of every prepared database, made by the database engine of the data directory.

    Examples: gauss test pipeline.toml · gauss test examples --junit results.xml · gauss test . --case "a late quote"

    Exit codes: 0 all passed, 1 a case failed or a file has errors.
    """
    from gauss.stream.flowtest.judge import find_test_files, read_suites
    from gauss.stream.flowtest.junit import write_junit
    from gauss.stream.flowtest.run import run_suites

    # Processes are killed and restarted on purpose: do not log it to the terminal.
    logging.getLogger("gauss").addHandler(logging.NullHandler())
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # by default a signal would leave processes and files behind
    output = CommandOutput(json=json)
    began = time.monotonic()
    suites = read_suites(find_test_files(files or [Path()]))
    results = []
    for result in run_suites(suites, case, data_dir=data_dir):
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
