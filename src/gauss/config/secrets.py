"""Substitutes `${NAME}`, `${NAME:-default}` and `${file:path}` in the strings of a config, and redacts secrets.

`$${` is a literal `${`. Redacted are values from the environment or a file, values whose key names a secret, and
passwords in URLs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gauss.config.positions import KeyPath

HIDDEN = "***"
_SHORT = 3
"""Secrets up to this length are redacted only as whole words, not inside other words."""

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WITH_DEFAULT = re.compile(rf"({_NAME.pattern}):-(.*)", re.DOTALL)

_SECRET_KEY = re.compile(
    r"(password|passwd|passphrase|secret|token(?![a-z])|credential|authorization|cookie|sasl|(?<![a-z])dsn"
    r"|api.?key|access.?key|private.?key)(?!.*(file|path|provider|class|location|enabled|factory|mechanism|regex)$)",
    re.IGNORECASE,
)
_PASSWORDS = re.compile(r"://[^/\s:@]*:(?!\d+/)([^\s]+)@|\bpassword\s*=\s*(?:'([^']+)'|\"([^\"]+)\"|([^\s'\"]+))")
"""A password in a URL, or in a list of `key=value`."""
_NO_SECRET = re.compile(r"true|false|\d{1,6}", re.IGNORECASE)

Report = Callable[[KeyPath, str, str], None]
"""Reports a fault: path, message, hint."""


class Redactor:
    """Replaces known secrets in a text by `***`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._paths: set[KeyPath] = set()
        self._secrets: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        for secret in secrets:
            self.remember(secret)

    @property
    def secrets(self) -> frozenset[str]:
        return frozenset(self._secrets)

    def remember(self, secret: str, path: KeyPath = ()) -> None:
        """Adds a secret value and, if it is from the config, its path."""
        if path:
            self._paths.add(path)
        if secret.strip():
            self._secrets |= {secret, secret.strip()}
            self._pattern = None

    def holds(self, path: KeyPath) -> bool:
        """Whether the value at this path, or below it, contains a secret."""
        return any(known[: len(path)] == path for known in self._paths)

    def redact(self, text: str) -> str:
        if not self._secrets:
            return text
        if self._pattern is None:
            # Messages quote values by repr or as JSON, so their escaped forms are redacted too.
            forms = {
                form for secret in self._secrets for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1])
            }
            parts = [
                re.escape(form) if len(form) > _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"
                for form in sorted(forms, key=len, reverse=True)
            ]
            self._pattern = re.compile("|".join(parts))
        return self._pattern.sub(HIDDEN, text)

    def redact_data(self, value: Any) -> Any:
        """Redacts every text in a JSON-like value, and long numbers that are secrets."""
        if not self._secrets:
            return value
        if isinstance(value, dict):
            return {self.redact_data(key): self.redact_data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_data(item) for item in value]
        if isinstance(value, str):
            return self.redact(value)
        known = isinstance(value, int | float) and len(str(value)) > _SHORT and str(value) in self._secrets
        return HIDDEN if known else value


def substitute(value: Any, base_dir: Path, redactor: Redactor, report: Report, path: KeyPath = ()) -> Any:
    """The value with every reference substituted. A missing one is reported and left empty."""
    if isinstance(value, dict):
        return {key: substitute(item, base_dir, redactor, report, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, base_dir, redactor, report, (*path, index)) for index, item in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value

    def fill(reference: re.Match[str]) -> str:
        if reference[0] == "$${":
            return "${"
        name, closed = reference[1], reference[0].endswith("}")
        if closed and (found := _WITH_DEFAULT.fullmatch(name)):
            name, default = found.groups()
            if not os.environ.get(name):
                return str(default)  # it is written in the config, so it is no secret
        try:
            secret = _resolve(name, base_dir, closed=closed)
        except LookupError as problem:
            report(path, str(problem.args[0]), str(problem.args[1]))
            return ""
        redactor.remember(secret, path)
        return secret

    return _REFERENCE.sub(fill, value)


def remember_written(value: Any, redactor: Redactor, path: KeyPath = (), *, secret: bool = False) -> None:
    """Finds secrets in plain text. `secret`: a parent key names a secret."""
    if isinstance(value, dict):
        for key, item in value.items():
            remember_written(item, redactor, (*path, key), secret=secret or bool(_SECRET_KEY.search(str(key))))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            remember_written(item, redactor, (*path, index), secret=secret)
    else:
        text = value if isinstance(value, str) else ""
        if secret:
            redactor.remember("" if _NO_SECRET.fullmatch(text) else text, path)
        for found in _PASSWORDS.findall(text):
            redactor.remember("".join(found), path)


def _resolve(reference: str, base_dir: Path, *, closed: bool) -> str:
    """The value of a reference; raises LookupError(message, hint) if there is none."""
    if not closed:
        raise LookupError('"${" without its "}"', 'write "$${" for a literal "${"')
    if reference.startswith("file:"):
        file = base_dir / Path(reference.removeprefix("file:")).expanduser()
        try:
            return file.read_text(encoding="utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise LookupError(f"the file {file} is not UTF-8 text", "a secret file holds one line of text") from None
        except OSError as error:
            hint = "relative paths start at the folder of the config file"
            raise LookupError(f"can't read the file {file}: {error.strerror}", hint) from None
    if not _NAME.fullmatch(reference):
        hint = 'write "$${" for a literal "${"'
        raise LookupError(f'"${{{reference}}}" names neither an environment variable nor a file', hint)
    if reference not in os.environ:
        raise LookupError(f"the environment variable {reference} is not set", f"export {reference}=… before starting")
    return os.environ[reference]
