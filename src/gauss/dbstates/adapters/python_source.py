"""What a Python file of migrations depends on, found without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gauss.dbstates.planning.lexer import Unterminated, normalized, words
from gauss.dbstates.planning.plan import digest
from gauss.dbstates.planning.volatility import Volatility
from gauss.model.errors import ConfigError

_UNREPEATABLE = words(
    "now utcnow today time time_ns uuid1 uuid4 random randint randrange choice choices shuffle sample token_hex "
    "token_urlsafe urandom system popen Popen check_output check_call urlopen"
)


@dataclass
class PythonSource:
    """One file."""

    path: Path
    constants: dict[str, object]
    """Names to which the file assigns plain values."""
    digest: str
    """Hash of the syntax tree: comments and layout do not count."""
    imports: set[str] = field(default_factory=set)
    """Modules, or names in them; a relative one begins with its dots."""
    environment: set[str] = field(default_factory=set)
    """Variables of the environment that it reads by name."""
    strings: set[str] = field(default_factory=set)
    marks: list[tuple[str, int]] = field(default_factory=list)
    """Reason and line of what can give another result in each run."""


def read(path: Path, text: bytes) -> PythonSource:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise ConfigError(f"{path}:{line}: expected a Python file: {error}") from None
    found = PythonSource(path, dict(_constants(tree)), digest(ast.dump(tree)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.imports |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (f"{node.module}." if node.module else "")
            found.imports |= {f"{base}{each.name}" for each in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.strings.add(node.value)
        elif isinstance(node, ast.Subscript) and _name(node.value) == "environ":
            _environment(found, node.slice, node.lineno)
        elif isinstance(node, ast.Call):
            _call(found, node)
    return found


def local_files(source: PythonSource, folders: Sequence[Path]) -> list[Path]:
    """The files of imported modules that are found in these folders, relative ones beside the file; a name may also be
    that of an object in its module."""
    found = []
    for module in sorted(source.imports):
        parts = module.lstrip(".").split(".")
        level = len(module) - len(module.lstrip("."))
        for folder in [[*source.path.parents][level - 1]] if level else folders:
            for count in range(len(parts), 0, -1):
                at = folder.joinpath(*parts[:count])
                file = next((each for each in (at.with_suffix(".py"), at / "__init__.py") if each.is_file()), None)
                if file is not None:
                    found.append(file)
    return found


def _constants(tree: ast.Module) -> Iterator[tuple[str, object]]:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                try:
                    yield target.id, ast.literal_eval(value)
                except ValueError:
                    continue


def _call(found: PythonSource, node: ast.Call) -> None:
    name = _name(node.func)
    if name == "getenv" or (
        name == "get" and isinstance(node.func, ast.Attribute) and _name(node.func.value) == "environ"
    ):
        _environment(found, node.args[0] if node.args else node, node.lineno)
    elif name in ("import_module", "__import__"):
        module = node.args[0] if node.args else None
        if isinstance(module, ast.Constant) and isinstance(module.value, str):
            found.imports.add(module.value)
        else:
            found.marks.append((f"{name}()", node.lineno))
    elif name in _UNREPEATABLE:
        found.marks.append((f"{name}()", node.lineno))
    elif name == "execute":
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                try:
                    reasons = Volatility().reasons(normalized(each.value.encode("utf-8", "surrogatepass")))
                except Unterminated:
                    continue
                found.marks += [(reason, each.lineno) for reason in reasons]


def _environment(found: PythonSource, argument: ast.expr, line: int) -> None:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        found.environment.add(argument.value)
    else:
        found.marks.append(("os.environ", line))


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
