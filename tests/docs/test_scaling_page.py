"""The figures of the page about scaling: from the results of the benchmarks, or computed from them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.kafka_topics import quotes  # noqa: E402

from docs import scaling_page  # noqa: E402


def test_the_page_is_what_the_results_say() -> None:
    assert scaling_page.PAGE.read_text() == scaling_page.page(), "run `make docs`"


def test_its_records_are_those_of_the_benchmark() -> None:
    given = quotes()
    assert round(sum(map(len, given)) / len(given)) == scaling_page.QUOTE_BYTES


def test_other_results_give_another_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = scaling_page.figures()
    text = scaling_page.RESULTS.read_text()
    (tmp_path / "results.md").write_text(text.replace(f"{found.derived:,.0f}", "1,000,000"))
    monkeypatch.setattr(scaling_page, "RESULTS", tmp_path / "results.md")
    page = scaling_page.page()
    assert "1,000k records" in page
    assert "| 167 million/s |" in page
    assert "167 million/s ÷ 1,000k records per CPU second | 167, all busy" in page
