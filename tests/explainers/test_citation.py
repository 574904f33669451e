"""Citations: what they say, and that those of the registries are put down field by field."""

from __future__ import annotations

import re

import pytest

import explainers
from explainers.citation import UNKNOWN, Citation
from explainers.datasets import DATASETS
from explainers.metrics import METRICS

FULL = Citation(authors="Doe et al.", year=2026, title="A paper", venue="ICML", arxiv="2601.00001", note="its eq. 3")
OLD = Citation(authors="Doe et al.", year=2026, title="A paper, ICML 2026, arXiv 2601.00001", link="https://example.org")


def cited() -> list[Citation]:
    """Every citation of the registries that is of a publication."""
    sources = [variant.source for variant in explainers.variants()]
    sources += [one.source for one in (*explainers.RULES.values(), *METRICS.values(), *DATASETS.values()) if one.source is not None]
    return list(dict.fromkeys(source for source in sources if source != UNKNOWN))


def test_what_a_citation_says() -> None:
    assert FULL.short == "Doe et al., 2026"
    assert FULL.publication == "A paper, ICML 2026, arXiv 2601.00001"
    assert FULL.paper == "A paper, ICML 2026, arXiv 2601.00001; its eq. 3"
    assert str(FULL) == "Doe et al., 2026: A paper, ICML 2026, arXiv 2601.00001; its eq. 3"
    assert FULL.address == "https://arxiv.org/abs/2601.00001"
    assert FULL.with_note("on tokens").note == "its eq. 3; on tokens"
    assert str(UNKNOWN) == UNKNOWN.address == ""


def test_a_title_may_hold_all_as_packages_have_it() -> None:
    assert OLD.to_json() == {"by": "Doe et al.", "year": 2026, "paper": "A paper, ICML 2026, arXiv 2601.00001"}
    assert OLD.about().to_json() == {"authors": "Doe et al.", "year": 2026, "title": OLD.title, "link": "https://example.org"}
    assert OLD.with_note("its eq. 3").paper == FULL.paper
    assert Citation.from_json(FULL.to_json()).to_json() == FULL.to_json()


@pytest.mark.parametrize("source", cited(), ids=str)
def test_a_citation_of_the_registries_has_its_fields(source: Citation) -> None:
    """The year is that of the venue, else of the first version on arXiv: never of a paper that is only mentioned."""
    assert source.year is not None
    assert not re.search(r"arXiv|\b(19|20)\d\d\b", source.title), source.title
    assert " as in " not in source.authors
    if source.arxiv:
        first = 2000 + int(source.arxiv[:2])
        assert first <= source.year <= first + 4 if source.venue else source.year == first, source
    else:
        assert source.venue


def test_a_baseline_of_another_paper_is_a_note() -> None:
    for spec, by in (("gradcam_attention", "Selvaraju et al., 2017"), ("partial_lrp", "Voita et al., 2019"), ("lrp", "Bach et al., 2015")):
        source = next(variant.source for variant in explainers.variants() if variant.spec == spec)
        assert source.short == by
        assert "baseline of Chefer et al., 2021" in source.note
