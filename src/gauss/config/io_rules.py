"""Rules for the formats and framings that `input`, `output` and `storage_config` name."""

from __future__ import annotations

from pydantic import ValidationError

from gauss import registry
from gauss.config.entries import Entries, Processor, find_spec
from gauss.config.faults import Scope
from gauss.config.spec import FormatDef
from gauss.config.strict import refuse_conversions
from gauss.config.validate import did_you_mean, report
from gauss.contracts.format import FormatSpec
from gauss.contracts.framing import FramingSpec
from gauss.contracts.io import FRAMING_KEYS
from gauss.contracts.processor import Role
from gauss.model.errors import PluginError


class IoRules:
    """Applies the rules. `implied` are formats that are used by the name of their plugin, without an entry."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.implied: dict[str, FormatDef] = {}

    def check(self) -> None:
        for processor in self.entries.processors:
            _check_framing(processor)
            for side in ("input", "output"):
                table = processor.definition.config.get(side)
                if isinstance(table, dict):
                    self._check_format(table.get("format"), processor.scope.inside("config", side))
        for topic in self.entries.topics:
            self._check_format(topic.definition.storage_config.get("format"), topic.scope.inside("storage_config"))

    def _check_format(self, name: object, scope: Scope) -> None:
        if not isinstance(name, str) or name in self.entries.names["formats"] or scope.has("format"):
            return
        if name in registry.names(FormatSpec):
            try:
                registry.spec(FormatSpec, name).validate({})
            except ValidationError:
                hint = f'add [[formats]] with name = "{name}", plugin = "{name}" and its config'
                scope.add(("format",), f'the format "{name}" needs settings', hint=hint)
            except PluginError as error:
                scope.add(("format",), error.message, hint=error.hint)
            else:
                self.implied[name] = FormatDef(name=name, plugin=name)
            return
        known = sorted({*self.entries.names["formats"], *registry.names(FormatSpec)})
        scope.add(
            ("format",),
            f'unknown format "{name}"',
            expected=f"one of {', '.join(known)}" if known else "a [[formats]] entry",
            hint=did_you_mean(name, known) or "name it in [[formats]]",
        )


def _check_framing(processor: Processor) -> None:
    """Checks that a byte stream has a framing, and nothing else has."""
    spec = processor.spec
    if spec is None:
        return
    for side in ("input", "output"):
        scope = processor.scope.inside("config", side)
        table = processor.definition.config.get(side)
        if side == spec.framed and spec.is_raw(processor.definition.config):
            continue  # its config rejects it
        if side == spec.framed:
            if table is None or isinstance(table, dict):
                _check_stream(table or {}, side, scope)
        elif isinstance(table, dict) and spec.role is Role.TRANSFORM and not scope.has():
            for key in (key for key in FRAMING_KEYS if key in table):
                scope.add(
                    (key,),
                    f'"{side}.{key}" does not apply to a transform, whose records are already framed',
                    hint="set the framing at the source or sink, or use the reframe processor",
                )


def _check_stream(table: dict[str, object], side: str, scope: Scope) -> None:
    name = table.get("framing")
    if name is None:
        scope.faults.drop(scope.path, (*scope.path, "framing"))  # the message below is clearer
        scope.add(
            ("framing",),
            f'"{side}.framing" is missing: a byte stream needs a framing that splits it into records',
            expected=f"one of {', '.join(registry.names(FramingSpec))}",
            hint=f'e.g. {side} = {{ framing = "newline" }}',
        )
        return
    spec = find_spec(FramingSpec, name, "framing", scope) if isinstance(name, str) else None
    if spec is None:
        return
    if side == "output" and spec.splits_only:
        hint = f"name one of {', '.join(each for each in registry.names(FramingSpec) if each != name)}"
        scope.add(("framing",), f'framing "{name}" can only read; a sink needs one that can write', hint=hint)
        return
    parameters = {key: value for key, value in table.items() if key not in ("format", "framing")}
    if spec.config.model_config.get("extra") == "forbid":
        known = sorted(spec.config.model_fields)
        takes = f"takes {', '.join(known)}" if known else "takes no parameter"
        for key in [key for key in parameters if key not in known]:
            del parameters[key]
            hint = did_you_mean(key, known)
            scope.add((key,), f'"{key}" does not belong to framing "{name}", which {takes}', hint=hint)
    try:
        refuse_conversions(parameters, spec.validate(parameters), scope)
    except ValidationError as error:
        report(error, spec.config, parameters, scope)
