"""The files of the protocols: each says what can be measured, and prints figures of rows that it has."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from explainers import ExplainerError
from explainers.datasets import DATASETS
from explainers.evaluation.plan import CHOICES
from explainers.evaluation.protocols.protocol import find_protocol, missing_parts, protocol_names
from explainers.methods import parse
from explainers.metrics import METRICS
from explainers.models.catalogue import embedded_names
from explainers.models.removal.ways import How
from explainers.models.resizing import RESIZES

NAMES = {
    *(
        "chefer-table1",
        "chefer-table2",
        "chefer-table3",
        "chefer-figure3",
        "chefer-figure4",
        "libragrad-mif",
        "libragrad-ap",
        "libragrad-completeness",
    ),
    *("libragrad-ablation", "libragrad-sizes", "libragrad-mixer", "libragrad-ig", "libragrad-prompts", "libragrad-zebra-elephant"),
    *("ali-sst2", "ali-imdb", "ali-conservation", "ali-names"),
    *("libragrad-measures", "libragrad-llama", "libragrad-funnybirds", "ali-mnist", "ali-bace"),
    *("ali-emotions", "ali-hate", "ali-sentiment", "ali-meld", "ali-semaine"),
}
ALLOWED = {**CHOICES, "resize": RESIZES, "long_texts": {"cut", "windows"}, "how": set(get_args(How))}


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
    assert all(split in DATASETS[dataset].splits for dataset, split in protocol.splits.items())
    assert protocol.version in protocol.heading
    assert all(text.endswith(".") for text in (*protocol.notes, *protocol.differences))
    assert not set(protocol.notes) & set(protocol.differences)
    assert protocol.differences, "no protocol is the paper itself"
    assert protocol.stand_ins
    assert set(protocol.stand_ins) <= set(protocol.datasets)
    assert not any(DATASETS[name].layout for name in protocol.stand_ins.values())
    assert all(model.name or model.get for model in protocol.models)
    if protocol.published is not None:
        assert set(protocol.published.rows) <= {row.title for row in protocol.rows}
        assert {len(texts) for texts in protocol.published.rows.values()} == {len(protocol.published.heads)}


def test_what_no_protocol_measures_says_why() -> None:
    parts = missing_parts()
    assert {part.paper.short for part in parts} == {"Ali et al., 2022", "Mehri et al., 2025"}
    assert len({part.source for part in parts}) == len(parts)
    assert not {part.source for part in parts} & {find_protocol(name).source for name in NAMES}
    for part in parts:
        assert part.reason.endswith(".")
        assert not part.instead or part.instead.endswith(".")
        assert set(re.findall(r"vitrine reproduce ([\w-]+)", part.instead)) <= NAMES
        assert set(re.findall(r"--dataset ([\w-]+)", part.instead)) <= DATASETS.keys()
        assert {name for names in re.findall(r"--metrics ([\w,]+)", part.instead) for name in names.split(",")} <= METRICS.keys()


def test_a_protocol_says_what_it_needs_and_how_long_it_took() -> None:
    assert find_protocol("chefer-table1").needs == "imagenet; ViT-B/16"
    assert find_protocol("ali-sst2").needs == "sst-2; BERT, 3 blocks (your own)"
    assert find_protocol("chefer-table1").duration == "12 min"
    assert find_protocol("libragrad-sizes").duration == ""  # not measured


def test_an_unknown_protocol_names_near_misses() -> None:
    with pytest.raises(ExplainerError, match=r"no protocol 'chefer-table4'. Did you mean chefer-table\d"):
        find_protocol("chefer-table4")


def test_what_an_audit_of_the_papers_found() -> None:
    """Settings of the papers and of their published code, each with where it was read."""
    table3 = find_protocol("chefer-table3")
    # ViT_LRP.py, method second_layer: blocks[1]; the paper counts block 1 at the output
    assert [row.title for row in table3.rows if row.spec.endswith("second_block")] == [
        "The second block from the input only (B-1 of the paper)"
    ]
    # ViT_LRP.py, default_cfgs: jx_vit_base_p16_224-80ecf9dd
    for name in ("chefer-table1", "chefer-table2", "chefer-table3"):
        assert [model.name for model in find_protocol(name).models] == ["timm/vit_base_patch16_224.orig_in21k_ft_in1k"]
        assert find_protocol(name).decimals == 2
    # run_sst.py, run_imdb.py: cl=y_true; bert_pipeline.py: index=target_idx
    for name in ("ali-sst2", "ali-imdb", "ali-conservation", "chefer-figure4"):
        assert find_protocol(name).options["target"] == "gold"
    for name, rows in (("ali-sst2", "?row=mean"), ("ali-imdb", "")):
        protocol = find_protocol(name)
        assert [measure.metric for measure in protocol.measures] == ["auac_special", "au_mse_special"]
        # run_imdb.py: R[0, 0:]; run_sst.py: the sum over all rows
        assert {row.title: row.spec for row in protocol.rows}["Grad-Rollout"] == f"generic_attention{rows}"
    imdb = " ".join(find_protocol("ali-imdb").differences)
    assert all(words in imdb for words in ("256 tokens", "a fifth of all 50,000", "gamma 0.01"))
    # coco_utils.py: dataType train2017, labels 340 and 386; compute_qual.py: softmax probability of an ImageNet model
    zebra = find_protocol("libragrad-zebra-elephant")
    assert (zebra.splits, zebra.options) == ({"coco-zebra-elephant": "train2017"}, {"target": "each", "explains": "probability"})
    assert [model.name for model in zebra.models] == ["timm/vit_base_patch16_224.augreg2_in21k_ft_in1k"]
    # the proceedings: Figures 1 and 2, Section 4.1 ("We evaluate all architectures on the ImageNet dataset")
    assert find_protocol("libragrad-prompts").place.startswith("Figure 1 ")
    assert zebra.place.startswith("Figure 2 ")
    mif = find_protocol("libragrad-mif")
    assert mif.published is not None
    assert "Table 6 (ViT-L to DeiT3-H) is of ImageNet." in mif.published.source
    # other measures of the same models and rows, whose figures are not known
    measures = find_protocol("libragrad-measures")
    assert (measures.models, measures.rows, measures.inputs, measures.options) == (mif.models, mif.rows, mif.inputs, mif.options)
    assert measures.published is None
    names = find_protocol("ali-names")
    assert [(model.title, measure.dataset) for model, measure in zip(names.models, names.measures, strict=True)] == [
        ("DistilBERT", "sst-2")
    ]
