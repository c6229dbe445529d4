"""Validation of test files: all faults of all files are reported together, each with its line."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gauss import registry
from gauss.config.check import Checked, check
from gauss.config.faults import Fault, Faults, Scope
from gauss.config.files import check_file
from gauss.config.load import find_file, load
from gauss.config.spec import Pipeline
from gauss.config.validate import did_you_mean, validate
from gauss.contracts.processor import ProcessorSpec, Role
from gauss.model.errors import ConfigError
from gauss.stream.flowtest.cases import SUFFIX, Case, CaseStep, Expect, ExpectedLetters
from gauss.stream.formats import topic_format

STEP_KINDS = ("send", "advance", "restart")
SEND_KEYS = ("records", "base64", "file")
PARTS: dict[str, type[BaseModel]] = {"steps": CaseStep, "expect": Expect, "dead_letters": ExpectedLetters}


@dataclass(frozen=True)
class Suite:
    """A valid test file with its pipeline."""

    file: Path
    checked: Checked
    pipeline: Pipeline
    cases: list[Case]

    def topic_of(self, name: str) -> str:
        """The topic that `send` writes to."""
        return sources(self.pipeline).get(name, name)


def sources(pipeline: Pipeline) -> dict[str, str]:
    """Source processor → the topic it fills."""
    return {
        entry.name: entry.target.topic
        for entry in pipeline.processors
        if entry.target is not None and registry.spec(ProcessorSpec, entry.plugin).role is Role.SOURCE
    }


def find_test_files(given: list[Path]) -> list[Path]:
    """The test files of the given paths: a path is a test file, a pipeline that has one, or a folder."""
    return list(dict.fromkeys(file for path in given for file in _test_files(path)))


def _test_files(given: Path) -> list[Path]:
    if given.is_dir():
        found = sorted(given.rglob(f"*{SUFFIX}"))
        if not found:
            raise ConfigError(f"no *{SUFFIX} in {given}", hint="the tests of pipeline.toml are in pipeline.test.toml")
        return found
    if given.name.endswith(SUFFIX):
        if not given.is_file():
            raise ConfigError(f"there is no file {given}", hint=f"the tests of NAME.toml are in NAME{SUFFIX} beside it")
        return [given]
    file = find_file(given)
    beside = file.with_name(file.stem + SUFFIX)
    if not beside.is_file():
        raise ConfigError(f"{file} has no tests: there is no {beside}", hint="to write tests, see: gauss docs testing")
    return [beside]


def read_suites(files: list[Path]) -> list[Suite]:
    """Validates all files; raises one ConfigError with the faults of all of them."""
    faults: list[Fault] = []
    suites: list[Suite] = []
    for file in files:
        suite = _read(file, faults)
        if suite is not None:
            suites.append(suite)
    if faults:
        listed = "\n".join(str(fault) for fault in faults)
        raise ConfigError(f"{len(faults)} fault{'s' if len(faults) > 1 else ''} in the tests:\n{listed}")
    return suites


def _read(file: Path, found: list[Fault]) -> Suite | None:
    config = file.with_name(file.name.removesuffix(SUFFIX) + ".toml")
    if not config.is_file():
        found.append(Fault(str(file), 1, 1, "", f"there is no {config.name} beside it", hint="the pipeline it tests"))
        return None
    checked = check(config)
    found += checked.errors
    document = load(file)
    if document.fault is not None:
        found.append(document.fault)
        return None
    faults = Faults(file, document.positions)
    faults.redactor = checked.redactor
    cases = list(_cases(document.data, faults, checked.pipeline))
    found += faults.sorted()
    if checked.pipeline is None or faults.errors:
        return None
    return Suite(file, checked, checked.pipeline, cases)


def _cases(data: dict[str, Any], faults: Faults, pipeline: Pipeline | None) -> Iterator[Case]:
    for key in data:
        if key != "cases":
            faults.add((key,), f'unknown section "{key}"', expected="cases", hint=did_you_mean(key, ["cases"]))
    tables = data.get("cases", [])
    if not isinstance(tables, list) or not tables:
        faults.add(("cases",), "there are no cases", expected="[[cases]] entries", found=data.get("cases"))
        return
    seen: set[str] = set()
    for index, table in enumerate(tables):
        name = table.get("name") if isinstance(table, dict) else None
        scope = Scope(faults, ("cases", index), f'case "{name}"' if isinstance(name, str) else f"case {index + 1}")
        if not isinstance(table, dict):
            scope.add((), "it is not valid", expected="a table", found=table)
            continue
        if name in seen:
            scope.add(("name",), "another case has the same name")
        seen.add(str(name))
        if not table.get("expect") and not table.get("dead_letters"):
            scope.add((), "it expects nothing, so it can't fail", expected="[[cases.expect]]")
        # Part by part, so that a fault in one does not hide faults in the others.
        parts = {key: list(_parts(table.get(key, []), model, scope.inside(key))) for key, model in PARTS.items()}
        for number, step in parts["steps"]:
            _judge_step(step, scope.inside("steps", number), pipeline)
        for number, expect in parts["expect"]:
            _judge_expect(expect, scope.inside("expect", number), pipeline)
        case = validate(Case, {key: value for key, value in table.items() if key not in PARTS}, scope)
        if case is not None:
            yield case.model_copy(update={key: tuple(part for _, part in found) for key, found in parts.items()})


def _parts(value: object, model: type[BaseModel], scope: Scope) -> Iterator[tuple[int, Any]]:
    """The valid entries of an array of tables, with their indexes."""
    if not isinstance(value, list):
        scope.add((), f'"{scope.path[-1]}" is not valid', expected="an array of tables", found=value)
        return
    for number, entry in enumerate(value):
        part = validate(model, entry, scope.inside(number))
        if part is not None:
            yield number, part


def _judge_step(step: CaseStep, scope: Scope, pipeline: Pipeline | None) -> None:
    given = [kind for kind in STEP_KINDS if getattr(step, kind) is not None]
    if len(given) != 1:
        scope.add(
            (), "a step has one action", expected=f"one of {', '.join(STEP_KINDS)}", found=" and ".join(given) or None
        )
        return
    if step.send is None:
        for key in (*SEND_KEYS, "ts_ms", "format"):
            if getattr(step, key) is not None:
                scope.add((key,), f'"{key}" is only allowed with send')
        return
    _one_of(step, SEND_KEYS, scope)
    if step.file is not None:
        check_file(step.file, "file", scope.faults.file.resolve().parent, scope)
    _judge_base64(step.base64, scope)
    if pipeline is None:
        return
    _judge_topic(step.send, "send", scope, pipeline, [*sources(pipeline), *(topic.name for topic in pipeline.topics)])
    _judge_format(step, sources(pipeline).get(step.send, step.send), scope, pipeline)
    count = len(step.records or step.base64 or [])
    if isinstance(step.ts_ms, list) and count and len(step.ts_ms) != count:
        scope.add(("ts_ms",), "needs one time per record", expected=f"{count} times", found=len(step.ts_ms))


def _judge_expect(expect: Expect, scope: Scope, pipeline: Pipeline | None) -> None:
    _one_of(expect, ("records", "base64", "count"), scope)
    _judge_base64(expect.base64, scope)
    if pipeline is not None:
        _judge_topic(expect.topic, "topic", scope, pipeline, [topic.name for topic in pipeline.topics])
        _judge_format(expect, expect.topic, scope, pipeline)


def _one_of(entry: CaseStep | Expect, keys: tuple[str, ...], scope: Scope) -> None:
    given = [key for key in keys if getattr(entry, key) is not None]
    if len(given) != 1:
        scope.add((), "needs records", expected=f"one of {', '.join(keys)}", found=" and ".join(given) or None)


def _judge_base64(texts: list[str] | None, scope: Scope) -> None:
    for index, text in enumerate(texts or []):
        try:
            base64.b64decode(text, validate=True)
        except binascii.Error as error:
            scope.add(("base64", index), f"not valid base64: {error}", found=text)


def _judge_topic(name: str, key: str, scope: Scope, pipeline: Pipeline, known: list[str]) -> None:
    if name not in known:
        topics = ", ".join(topic.name for topic in pipeline.topics)
        hint = did_you_mean(name, known) or f"there are: {topics}"
        scope.add((key,), f'the pipeline has no topic "{name}"', hint=hint)


def _judge_format(entry: CaseStep | Expect, topic: str, scope: Scope, pipeline: Pipeline) -> None:
    tables = any(isinstance(record, dict) for record in entry.records or [])
    if entry.format is not None:
        known = [each.name for each in pipeline.formats]
        if entry.format not in known:
            scope.add(
                ("format",), f'the pipeline has no format "{entry.format}"', hint=f"there are: {', '.join(known)}"
            )
    elif tables and topic_format(pipeline, topic) is None and any(each.name == topic for each in pipeline.topics):
        scope.add(
            ("records",),
            f'the format of topic "{topic}" is unknown',
            hint="name it with format = …, or write records as text",
        )
