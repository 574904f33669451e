"""The spelling of a method, taken apart."""

from __future__ import annotations

import pytest

from explainers.errors import ExplainerError
from explainers.methods.specs import Spec


def test_a_spec_is_split_into_its_parts() -> None:
    spec = Spec.parse(" occlusion:libra?window=3&stride=2 ")
    assert (spec.method, spec.rule, dict(spec.options)) == ("occlusion", "libra", {"window": "3", "stride": "2"})
    assert (spec.variant, spec.settings) == ("occlusion:libra", ["window=3", "stride=2"])
    assert spec.title("Occlusion") == "Occlusion (window=3, stride=2)"
    assert (Spec.parse("rollout").variant, Spec.parse("rollout").title("Rollout")) == ("rollout", "Rollout")


@pytest.mark.parametrize("text", ["", ":libra", "rollout:", "rollout?a", "rollout?a=1&a=2"])
def test_what_is_no_spec_is_refused(text: str) -> None:
    with pytest.raises(ExplainerError):
        Spec.parse(text)
