"""The list of cases."""

from __future__ import annotations

import pytest

from gauss.connect.conformance.case import CASES, Role
from gauss.connect.conformance.runner import check_names
from gauss.model.errors import ConfigError


@pytest.mark.parametrize("role", list(Role))
def test_each_role_has_many_cases_with_a_description(role: Role) -> None:
    found = [case for case in CASES.all if case.role is role]
    assert len(found) >= 100 and len({case.name for case in found}) == len(found)
    assert [case.name for case in found if not case.expected.endswith(".")] == []


@pytest.mark.parametrize("role", list(Role))
def test_cases_are_ordered_after_their_prerequisites(role: Role) -> None:
    before: set[str] = set()
    for case in CASES.all:
        if case.role is role:
            assert set(case.after) <= before, f"{case.name} comes before {set(case.after) - before}"
            before.add(case.name)


def test_name_selects_a_case_or_a_prefix_and_an_unknown_one_is_refused() -> None:
    check_names(["read.twice", "write."])
    for wrong in ("read.twise", "write", "nothing."):
        with pytest.raises(ConfigError, match="no case"):
            check_names([wrong])
