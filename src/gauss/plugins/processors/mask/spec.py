"""mask: hides what some fields hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.plugins.processors.lints import needs_format, unknown_fields


class MaskConfig(PluginConfig):
    """Which fields are hidden, and how; all others go on as they are. What is null or missing stays null."""

    input: RecordIO
    """The format in which records are decoded."""
    output: RecordIO | None = None
    """The format in which the result is written; left out: the input's."""
    fields: Annotated[list[str], Field(min_length=1)]
    """The fields to hide, e.g. `["email", "card.number"]`."""
    method: Literal["redact", "hash", "partial", "null"] = "redact"
    """`redact` puts `text` in place of any text, `hash` its SHA-256 in hexadecimal (equal values stay equal),
    `partial` leaves the last `keep` characters, `null` removes a value of any type."""
    text: str = "***"
    """With `redact`: what is seen instead."""
    salt: str = ""
    """With `hash`: put before every value, so that nobody finds it by trying; take it from `${NAME}`."""
    keep: Annotated[int, Field(ge=0)] = 4
    """With `partial`: how many characters stay; a value that is not longer is hidden whole."""

    @model_validator(mode="after")
    def _only_its_own_keys(self) -> MaskConfig:
        for key, method in (("text", "redact"), ("salt", "hash"), ("keep", "partial")):
            if key in self.model_fields_set and self.method != method:
                raise PydanticCustomError(
                    "key_of_another_method",
                    '"{key}" belongs to method = "{method}"',
                    {"key": key, "method": method},
                )
        return self


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """A missing format, and fields that the input format does not have."""
    assert isinstance(config, MaskConfig)
    return needs_format("mask", config.input) or unknown_fields("fields", config.fields, context)


EXAMPLE = """
[[processors]]
name = "mask"
plugin = "mask"
source = { topic = "quotes", read = "offset" }
target = { topic = "masked" }
config = { input = { format = "json" }, fields = ["email", "card.number"], method = "partial", keep = 4 }
"""

SPEC = ProcessorSpec(
    name="mask",
    summary="hides what some fields hold",
    config=MaskConfig,
    implementation="gauss.plugins.processors.mask.transform:Mask",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=False,
    hosted=True,
    lint=lint,
    example=EXAMPLE,
)
