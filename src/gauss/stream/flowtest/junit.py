"""Test results as JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from gauss.stream.flowtest.run import Result


def write_junit(results: Sequence[Result], file: Path) -> None:
    """One suite per test file, one case per case."""
    root = ElementTree.Element("testsuites")
    for path in dict.fromkeys(result.file for result in results):
        mine = [result for result in results if result.file == path]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=str(path),
            tests=str(len(mine)),
            failures=str(sum(not result.passed for result in mine)),
            time=f"{sum(result.seconds for result in mine):.3f}",
        )
        for result in mine:
            case = ElementTree.SubElement(
                suite, "testcase", classname=str(path), name=result.name, time=f"{result.seconds:.3f}"
            )
            if not result.passed:
                failure = ElementTree.SubElement(case, "failure", message=result.problems[0].where)
                failure.text = "\n".join(str(problem) for problem in result.problems)
    file.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)
