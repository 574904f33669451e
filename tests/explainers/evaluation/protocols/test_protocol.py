"""The files of the protocols: each says what can be measured, and prints figures of rows that it has."""

from __future__ import annotations

import pytest

from explainers import ExplainerError
from explainers.datasets import DATASETS
from explainers.evaluation.plan import CHOICES
from explainers.evaluation.protocols.protocol import find_protocol, protocol_names
from explainers.methods import parse
from explainers.metrics import METRICS
from explainers.models.catalogue import embedded_names
from explainers.models.resizing import RESIZES

NAMES = {
    *("chefer-table1", "chefer-table2", "chefer-table3", "chefer-figure4", "libragrad-mif", "libragrad-ap", "libragrad-completeness"),
    *("libragrad-ablation", "libragrad-sizes", "libragrad-ig", "libragrad-prompts", "libragrad-zebra-elephant"),
    *("ali-sst2", "ali-imdb", "ali-conservation", "ali-names"),
}
ALLOWED = {**CHOICES, "resize": RESIZES, "long_texts": {"cut", "windows"}}


def test_every_table_of_the_three_papers_has_a_protocol() -> None:
    assert set(protocol_names()) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_protocol_names_what_there_is(name: str) -> None:
    protocol = find_protocol(name)
    assert set(protocol.inside) <= set(embedded_names())
    assert len({row.title for row in protocol.rows}) == len(protocol.rows)
    for row in protocol.rows:
        assert parse(row.spec).method.name
    for measure in protocol.measures:
        assert measure.dataset in DATASETS
        assert DATASETS[measure.dataset].layout  # the paper's, not one that ships
        if protocol.kind == "runs":
            assert measure.metric in METRICS
    for options in (protocol.options, *(measure.options for measure in protocol.measures), *(row.options for row in protocol.rows)):
        for option, value in options.items():
            assert value in ALLOWED[option]
    assert protocol.stand_ins
    assert set(protocol.stand_ins) <= set(protocol.datasets)
    assert not any(DATASETS[name].layout for name in protocol.stand_ins.values())
    assert all(model.name or model.get for model in protocol.models)
    if protocol.published is not None:
        assert set(protocol.published.rows) <= {row.title for row in protocol.rows}
        assert {len(texts) for texts in protocol.published.rows.values()} == {len(protocol.published.heads)}


def test_an_unknown_protocol_names_near_misses() -> None:
    with pytest.raises(ExplainerError, match=r"no protocol 'chefer-table4'. Did you mean chefer-table\d"):
        find_protocol("chefer-table4")
