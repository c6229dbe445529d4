"""How a connector is registered, and that it keeps secrets."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import ValidationError

from gauss.connect.attempt import close, typed
from gauss.connect.conformance.bench import Bench
from gauss.connect.conformance.case import CASES, NotApplicable, Role, check
from gauss.connect.conformance.cases.lifecycle import OPEN
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import JsonConfig
from gauss.contracts.connector.spec import ConnectorSpec, DestinationSpec

CANARY = "gK-canary-7f3a91"
SECRET = re.compile(r"password|passwd|secret|token|credential|dsn|api_?key|access_?key|private_?key|url", re.IGNORECASE)
UNKNOWN = "gauss_kit_unknown"


def _spec(bench: Bench) -> ConnectorSpec:
    if bench.target.spec is None:
        raise NotApplicable("a class or module without a spec")
    return bench.target.spec


@CASES.both("spec.settings", "The config model accepts the settings, refuses unknown ones and has a JSON schema.")
def has_a_config_model(bench: Bench) -> None:
    spec = _spec(bench)
    spec.validate(bench.target.config)
    try:
        spec.validate({**bench.target.config, UNKNOWN: 1})
    except ValidationError:
        pass
    else:
        check(False, "an unknown setting is accepted")
    check("properties" in spec.config.model_json_schema(), "the config model has no settings in its JSON schema")


@CASES.both("spec.registration", "The spec has a summary, a version and known write modes.")
def is_registered(bench: Bench) -> None:
    spec = _spec(bench)
    check(spec.summary, "the spec has no summary")
    check(spec.version, "the spec has no version")
    if isinstance(spec, DestinationSpec):
        strange = spec.writes - {"append", "replace", "upsert"}
        check(spec.writes and not strange, f"writes = {', '.join(sorted(spec.writes)) or 'none'}")


@CASES.both("spec.no_secrets", "Secrets appear in no error, log line or validation message.", OPEN[:1])
def keeps_secrets(bench: Bench) -> None:
    keys = _secret_keys(bench)
    if not keys:
        raise NotApplicable("no setting looks like a secret")
    for key in keys:
        for what, config in _poisoned(bench, key):
            with _logged() as lines:
                said = _tried(bench, config)
            leaked = next((line for line in [*said, *lines] if CANARY in line), None)
            shown = "" if leaked is None else leaked.replace(CANARY, "***")
            check(leaked is None, f"the value of {key} ({what}) appears in: {shown[:200]}")


def _secret_keys(bench: Bench) -> list[str]:
    spec = bench.target.spec
    known = [] if spec is None else [field.alias or name for name, field in spec.config.model_fields.items()]
    return [key for key in dict.fromkeys([*bench.target.config, *known]) if SECRET.search(key)]


def _poisoned(bench: Bench, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Settings that fail in several ways, with the canary as the secret."""
    given = bench.target.config.get(key)
    if isinstance(given, str) and "://" in given:
        url = urlsplit(given)
        host = url.hostname or "localhost"
        for what, port in (("refused", url.port), ("nobody listens", 1)):
            place = f"{url.username or 'user'}:{CANARY}@{host}" + (f":{port}" if port else "")
            yield what, {**bench.target.config, key: urlunsplit(url._replace(netloc=place))}
    else:
        yield "wrong", {**bench.target.config, key: CANARY}
    yield "of a wrong type", {**bench.target.config, key: {"value": [CANARY]}}


def _tried(bench: Bench, config: dict[str, Any]) -> list[str]:
    """Opens and uses a connector; everything that it says."""
    said: list[str] = []
    try:
        made = bench.make()
    except ConnectorError as error:
        return [_text(error)]
    try:
        typed(lambda: made.connector.open(bench.open_context(config)))
        said.append(str(typed(lambda: made.connector.validate(JsonConfig(config))).message))
        if bench.role is Role.SOURCE:
            typed(made.connector.discover)
    except ConnectorError as error:
        said.append(_text(error))
    finally:
        close(made.connector)
    return [*said, *(line for _, _, line in made.observed.lines)]


def _text(error: ConnectorError) -> str:
    return f"{error.to_json().decode()} {error.hint} {error}"


@contextmanager
def _logged() -> Iterator[list[str]]:
    """What is logged meanwhile, by anybody."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno > logging.DEBUG:
                lines.append(record.getMessage())

    handler = Lines()
    logging.getLogger().addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(handler)
