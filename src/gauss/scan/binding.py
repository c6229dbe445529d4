"""A program meets a provider: what is not declared is refused, the rest becomes stages that run over candidates."""

from __future__ import annotations

from gauss.contracts.cursor import OUT_IDS, VIEW_IDS, Capabilities, Mode, Output, Program, Provider, Step
from gauss.model.errors import ConfigError
from gauss.scan.executor import Stages


def check(program: Program, capabilities: Capabilities) -> None:
    """Refuses a view, an output or a mode that the provider does not declare."""
    view = type(program.view)
    if view not in capabilities.views:
        declared = ", ".join(sorted(VIEW_IDS[known].name.lower() for known in capabilities.views))
        raise ConfigError(f"no view {view.__name__} here", hint=f"there are: {declared}")
    if program.output not in capabilities.outputs:
        declared = ", ".join(sorted(known.value for known in capabilities.outputs))
        raise ConfigError(f"no output {program.output.value} here", hint=f"there are: {declared}")
    if program.mode is Mode.LIVE and not capabilities.live:
        raise ConfigError("expected a snapshot: this source has no live scans")
    if program.stages and program.output is Output.CHUNKS:
        raise ConfigError("offset_len gives records as they lie: expected no expressions")
    if not program.stages and program.output is Output.SCALAR:
        raise ConfigError("expected a single column for a scalar output", hint="end the program with a value: .bid")


def bind(program: Program, provider: Provider) -> Stages:
    """The stages over the candidates of a provider; raises ConfigError with the place of the fault."""
    raise ConfigError(f"no expressions for {provider.inc}: {len(program.stages)} {OUT_IDS}")


def decode_program(blob: bytes) -> Program:
    raise ConfigError(f"can't read {len(blob)}")


def decode_step(blob: bytes) -> Step:
    raise ConfigError(f"can't read {len(blob)}")
