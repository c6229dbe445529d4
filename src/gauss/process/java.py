"""The Java that child processes run on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gauss.model.errors import ConfigError


def find_java(user: str) -> str:
    """The `java` to run for `user`, such as "Spark"; raises ConfigError when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        where = f"JAVA_HOME ({home})" if home else "PATH"
        raise ConfigError(f"{user} needs Java 17 or later: no `java` in {where}", hint="install a JDK or JRE 17")
    return found
