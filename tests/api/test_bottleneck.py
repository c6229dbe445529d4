from __future__ import annotations

from typing import Any

from gauss.api.bottleneck import headline, limiting_reader

Row = dict[str, Any]


def topic(rate: float = 0.0, reader: str = "", seconds: float = 0.0) -> Row:
    pressure = "full" if reader else "idle"
    return {"rate": rate, "blocked_by": reader, "blocked_s": seconds, "pressure": pressure}


def processor(rate: float = 0.0, pressure: str = "flowing", behind: int = 0, behind_ms: int = 0, **more: Any) -> Row:
    state = "failed" if pressure == "failed" else "running"
    row = {"rate": rate, "pressure": pressure, "behind": behind, "behind_ms": behind_ms, "state": state, "detail": ""}
    return row | more


def health(**more: Any) -> Row:
    return {"status": "ready", "reasons": [], "processes": [{"name": "engine", "state": "ready"}], **more}


def said(topics: dict[str, Row], processors: dict[str, Row], offered: float = 0.0, **more: Any) -> Row:
    limits = limiting_reader(topics, processors)
    return headline(health(**more), topics, processors, limits, offered=offered, listening=["127.0.0.1:9100"])


def test_the_reader_furthest_downstream_is_the_bottleneck() -> None:
    topics = {"raw": topic(31_800, "once", 200), "quotes": topic(31_800, "candles", 94)}
    processors = {"once": processor(31_800, "filling"), "candles": processor(31_800)}
    found = limiting_reader(topics, processors)
    assert found is not None and (found.processor, found.topic) == ("candles", "quotes")


def test_headline_names_the_bottleneck_with_its_reason() -> None:
    found = said({"quotes": topic(31_800, "candles", 94)}, {"candles": processor(31_800)}, offered=46_000)
    assert found["text"] == "candles holds all to 31.8 k/s"
    assert found["detail"] == (
        "candles reads 31.8 k/s, 46 k/s are offered; quotes is full, producers wait for 94 s, nothing is dropped"
    )
    assert (found["level"], found["processor"], found["topic"]) == ("bad", "candles", "quotes")


def test_headline_says_that_a_table_holds_all_back() -> None:
    found = said({"candles": topic(10, "_table.candles", 3)}, {"_table.candles": processor(10)})
    assert found["text"] == "The table candles holds all to 10/s"


def test_headline_of_a_flowing_an_idle_and_an_empty_run() -> None:
    assert said({"raw": topic(2970)}, {"feed": processor(2970)})["text"] == "2.97 k/s flow and nothing waits"
    idle = said({"raw": topic()}, {"feed": processor(0, "idle")})
    assert idle["text"] == "No records flow now" and "127.0.0.1:9100" in idle["detail"]
    assert said({}, {})["text"] == "This pipeline is empty"


def test_headline_of_a_failed_processor_says_what_is_safe() -> None:
    found = said({"raw": topic()}, {"high": processor(0, "failed", behind=1500, detail="division by zero")})
    assert found["text"] == "high has failed"
    assert found["detail"] == "1.5 k records wait for it, none is lost. division by zero"


def test_headline_of_a_late_processor_has_its_lag() -> None:
    found = said({"raw": topic(100)}, {"high": processor(50, behind=900, behind_ms=26_000)})
    assert found["text"] == "high is 26 s behind" and found["level"] == "warn"


def test_headline_of_a_process_that_is_down_comes_first() -> None:
    processes = [{"name": "driver", "state": "restarting", "detail": "killed"}]
    found = said({"raw": topic(100, "high", 5)}, {"high": processor(1)}, processes=processes)
    assert found["text"] == "Spark's driver restarts" and "nothing is lost" in found["detail"]
