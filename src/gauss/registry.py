"""Plugins by name: entry points for the built-ins and third parties alike, `package.module:NAME` for one's own."""

from __future__ import annotations

import atexit
import difflib
import functools
import importlib
import inspect
import os
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from gauss.contracts.format import FormatSpec
from gauss.contracts.framing import FramingSpec
from gauss.contracts.plugin import ABI_VERSION, PluginSpec
from gauss.contracts.processor import Role
from gauss.model.closing import close_process, hold
from gauss.model.errors import PluginError

S = TypeVar("S", bound=PluginSpec)

PLUGIN_DIR = "GAUSS_PLUGIN_DIR"
"""The environment's name for the folder of the config; Spark's workers inherit it."""

atexit.register(close_process)


@functools.cache
def _group(kind: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"gauss.{kind}s")}


def names(kind: type[PluginSpec]) -> list[str]:
    """Every installed plugin of a kind."""
    return sorted(_group(kind.KIND))


def spec(kind: type[S], name: str) -> S:
    """The spec of a plugin; raises PluginError when it is unknown, of another kind or of another ABI."""
    if ":" in name:
        loaded = load_path(name, kind.KIND)
    elif name in _group(kind.KIND):
        try:
            loaded = _group(kind.KIND)[name].load()
        except Exception as error:  # a third party's import may fail in any way
            raise PluginError(f'{kind.KIND} "{name}" failed to load: {error}', hint="reinstall its package") from error
    else:
        near = difflib.get_close_matches(name, names(kind), 1)
        known = ", ".join(names(kind))
        raise PluginError(
            f'unknown {kind.KIND} "{name}"',
            hint=f'did you mean "{near[0]}"?' if near else f"installed: {known}",
        )
    if not isinstance(loaded, kind):
        raise PluginError(
            f'"{name}" is not a {kind.KIND}: expected a {kind.__name__}, found {type(loaded).__name__}',
            hint="put @arrow_function() or @dataframe_function() of gauss.contracts.function before it"
            if inspect.isfunction(loaded)
            else f"register it under the entry point group gauss.{getattr(loaded, 'KIND', kind.KIND)}s",
        )
    if loaded.abi != ABI_VERSION:
        raise PluginError(
            f'{kind.KIND} "{name}" speaks plugin ABI {loaded.abi}, this Gauss speaks {ABI_VERSION}',
            hint="install a release of the plugin made for this version",
        )
    return loaded


def installed(kind: type[S], name: str) -> S:
    """The spec of an installed plugin. For names that come from a request: `module:NAME`, which only a pipeline may
    write, would import whatever the request likes."""
    if ":" in name:
        raise PluginError(
            f'{kind.KIND} "{name}" is not installed: only a pipeline may name a {kind.KIND} by its module',
            hint=f"installed: {', '.join(names(kind))}",
        )
    return spec(kind, name)


def look_in(folder: Path) -> None:
    """Lets `module:NAME` mean a file in a config's folder, in this process and in those that it starts."""
    os.environ[PLUGIN_DIR] = str(folder)


def load_path(path: str, kind: str) -> object:
    """What `module:NAME` names: an object of an installed module, or of a file in the config's folder."""
    module_name, _, attribute = path.partition(":")
    folder = os.environ.get(PLUGIN_DIR, "")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    try:
        found: object = getattr(importlib.import_module(module_name), attribute)
    except ImportError as error:
        raise PluginError(f'{kind} "{path}": {error}', hint=f"is {module_name} installed?") from error
    except AttributeError as error:
        raise PluginError(f'{kind} "{path}": {module_name} has no {attribute}') from error
    except Exception as error:  # a person's own file may fail in any way
        raise PluginError(
            f'{kind} "{path}" failed to load: {type(error).__name__}: {error}', hint=f"mend {module_name}"
        ) from error
    return getattr(found, "SPEC", found)


def build(plugin: PluginSpec, *args: Any) -> Any:
    """Imports a plugin's implementation and constructs it. A format, framing or transform that has a `close` is closed
    with the scope it is built in (`model/closing.py`), else at the process's end; all others by whoever built them."""
    module_name, _, attribute = plugin.implementation.partition(":")
    try:
        factory = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise PluginError(f'{plugin.KIND} "{plugin.name}" has no implementation: {error}') from error
    made = factory(*args)
    if isinstance(plugin, FormatSpec | FramingSpec) or getattr(plugin, "role", "") == Role.TRANSFORM:
        hold(made)
    return made
