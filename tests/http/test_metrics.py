from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from gauss.http.metrics import render


def test_text_is_what_prometheus_reads_back() -> None:
    metrics = [
        {"name": "gauss_records_total", "type": "counter", "help": "In", "labels": {"topic": 'a"b\\c\n'}, "value": 3},
        {"name": "gauss_fill", "type": "gauge", "help": "Of 1", "labels": {}, "value": 0.5},
        {"name": "gauss_records_total", "type": "counter", "help": "In", "labels": {"topic": "d"}, "value": 4},
    ]
    families = {family.name: family for family in text_string_to_metric_families(render(metrics))}
    counted = {sample.labels["topic"]: sample.value for sample in families["gauss_records"].samples}
    assert counted == {'a"b\\c\n': 3.0, "d": 4.0}
    assert families["gauss_fill"].samples[0].value == 0.5


def test_samples_of_one_name_stand_together_under_one_type_line() -> None:
    one = {"name": "m", "type": "gauge", "help": "", "labels": {"x": "1"}, "value": 1}
    other = {"name": "n", "type": "gauge", "help": "", "labels": {}, "value": 1}
    text = render([one, other, {**one, "labels": {"x": "2"}}])
    assert text.count("# TYPE m ") == 1
    assert text.index('m{x="2"}') < text.index("# TYPE n")
