"""Settings that connectors have in common, and how a connector reads its own."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import Field, ValidationError

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import ConfigBlob, JsonConfig
from gauss.contracts.plugin import Bytes, PluginConfig

C = TypeVar("C", bound=PluginConfig)


class CheckpointThresholds(PluginConfig):
    """How much is read again after a crash, at most. A source makes a checkpoint when half of `bytes` or `rows` has
    come since the last one; the other half may be on its way to the destination."""

    bytes: Annotated[Bytes, Field(gt=0)] = 64 << 20
    """Bytes that are read again."""
    rows: Annotated[int, Field(gt=0)] = 500_000
    """Rows that are read again."""
    secs: Annotated[float, Field(gt=0)] = 5.0
    """Seconds between two checkpoints, if rows come."""

    @property
    def batch_bytes(self) -> int:
        """The largest batch with which the bound can be kept: one is on its way, one is about to follow."""
        return max(self.bytes // 4, 1)

    @property
    def batch_rows(self) -> int:
        return max(self.rows // 4, 1)


def typed_config(blob: ConfigBlob, model: type[C]) -> C:
    """The config of a connector. The ConnectorError names keys and rules, but no values, which may be secrets."""
    if not isinstance(blob, JsonConfig):
        raise ConnectorError.config("BAD_CONFIG", "the config is expected as JSON")
    try:
        return model.model_validate(blob.value)
    except ValidationError as error:
        raise ConnectorError.config("BAD_CONFIG", setting_faults(error)) from None


def setting_faults(error: ValidationError) -> str:
    """The keys and rules that settings break, without their values, which may be secrets."""
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'config'}: {each['msg']}" for each in error.errors())
