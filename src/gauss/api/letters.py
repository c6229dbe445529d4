"""Dead letters: corrected bytes, the format of a letter's record, and where the record is bad."""

from __future__ import annotations

import base64
import re
from typing import Any

from gauss.model.errors import ConfigError, NotFound
from gauss.model.names import inserted_topic
from gauss.stream.control.run import Running
from gauss.stream.formats import TopicFormat, topic_format

_AT_BYTE = re.compile(r"(?:at byte|at character|at position|byte) (\d+)")
_FIELD = re.compile(r'(?:field |column |\$\.|")([A-Za-z_][\w.]*)')
_VALUE = re.compile(r'\s*:\s*("(?:[^"\\]|\\.)*"|[^,}\]\s]+)')


def corrected_bytes(given: str | dict[str, str]) -> bytes:
    """The bytes of a corrected record: text, or `{"base64": …}`."""
    if isinstance(given, str):
        return given.encode()
    try:
        return base64.b64decode(given["base64"], validate=True)
    except (KeyError, ValueError) as error:
        raise ConfigError('data: expected text, or {"base64": …}') from error


def input_format(running: Running, processor: str) -> TopicFormat | None:
    """The format in which a processor reads its records."""
    if topic := inserted_topic(processor):
        return topic_format(running.pipeline, topic)
    entry = next((each for each in running.pipeline.processors if each.name == processor), None)
    if entry is None:
        known = ", ".join(each.name for each in running.pipeline.processors)
        raise NotFound(f'no processor "{processor}"', hint=f"processors of this run: {known}")
    named = entry.config.get("input")
    if isinstance(named, dict) and isinstance(named.get("format"), str):
        return TopicFormat(named["format"], "its input")
    return None if entry.source is None else topic_format(running.pipeline, entry.source.topic)


def bad_place(letter: dict[str, Any]) -> dict[str, int] | None:
    """Where in the text of a letter its reason is: of the value of the named field, or at the named byte."""
    data = base64.b64decode(letter["data"])
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    names = [letter["column"]] if letter.get("column") else _FIELD.findall(letter["detail"])
    for name in names:
        key = text.find(f'"{name.rpartition(".")[2]}"')
        if key >= 0 and (value := _VALUE.match(text, key + len(name.rpartition(".")[2]) + 2)):
            return {"start": value.start(1), "end": value.end(1)}
    if at := _AT_BYTE.search(letter["detail"]):
        start = len(data[: int(at[1])].decode(errors="ignore"))
        return {"start": min(start, max(len(text) - 1, 0)), "end": min(start + 1, len(text))}
    return None
