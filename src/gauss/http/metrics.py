"""The Prometheus text format."""

from __future__ import annotations

from typing import Any

TEXT = "text/plain; version=0.0.4; charset=utf-8"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def render(metrics: list[dict[str, Any]]) -> str:
    """The exposition text, with samples grouped by name."""
    families: dict[str, list[dict[str, Any]]] = {}
    for metric in metrics:
        families.setdefault(metric["name"], []).append(metric)
    out = []
    for name, samples in families.items():
        help_text = str(samples[0].get("help", "")).replace("\\", "\\\\").replace("\n", "\\n")
        out.append(f"# HELP {name} {help_text}\n# TYPE {name} {samples[0]['type']}\n")
        for sample in samples:
            labels = ",".join(f'{key}="{_escape(str(value))}"' for key, value in sample.get("labels", {}).items())
            out.append(f"{name}{{{labels}}} {sample['value']}\n" if labels else f"{name} {sample['value']}\n")
    return "".join(out)
