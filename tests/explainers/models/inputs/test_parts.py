"""What a model reads is a list of parts: it is found out, may be passed as ``kind=``, and a refusal names the part that is not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

import explainers
from explainers import ExplainerError, Preprocessing
from explainers.models.inputs.parts import PARTS, check_reads, in_words, kind_named, parts_taken
from tests.support.own_models.case import text_model, vit
from tests.support.sound_models import SOUND_FAMILIES
from tests.support.task_models import picture_writer
from tests.support.vocabularies import wordpiece

# isort: split
import transformers as hf

SMALL: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def video_model() -> nn.Module:
    config = hf.VideoMAEConfig(**SMALL, image_size=32, patch_size=16, num_frames=4, tubelet_size=2, use_mean_pooling=False)
    return hf.VideoMAEForVideoClassification(config).eval()


def dual() -> nn.Module:
    text, vision = {**SMALL, "vocab_size": 30, "max_position_embeddings": 16}, {**SMALL, "image_size": 32, "patch_size": 16}
    return hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).eval()


SQUARE = Preprocessing((32, 32), fit="squash")
#: Of each model: how it is made, further arguments, what it reads, and a list that names something else with what is said to it.
MODELS: dict[str, tuple[Callable[[], Any], dict[str, Any], list[str], list[str], str]] = {
    "picture": (vit, {"preprocess": Preprocessing((160, 160))}, ["picture"], ["video"], "videos are not read"),
    "text": (text_model, {"tokenizer": wordpiece()}, ["text"], ["text", "picture"], r"takes texts \(input_ids\), and no pictures"),
    "video": (video_model, {"preprocess": SQUARE}, ["video"], ["picture"], "pictures are not read"),
    "dual": (dual, {"preprocess": SQUARE}, ["picture", "text"], ["picture"], "compares pictures with texts"),
    "writer": (picture_writer, {}, ["picture", "text"], ["text"], "so that pictures are read too"),
    "sound": (
        SOUND_FAMILIES["AST"][0],
        {},
        ["sound"],
        ["picture"],
        r"takes sounds \(input_values\), and no pictures",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_reads_may_be_said(name: str) -> None:
    make, arguments, reads, others, said = MODELS[name]
    module = make()
    module = module.module if isinstance(module, explainers.Model) else module
    known = explainers.wrap(module, **arguments)
    assert list(known.reads) == reads
    asked = explainers.wrap(module, kind=reads[::-1], **arguments)  # in any order
    assert (asked.kind, asked.reads) == (known.kind, known.reads)
    with pytest.raises(ExplainerError, match=said):
        explainers.wrap(module, kind=others, **arguments)


@pytest.mark.parametrize("kind", ["image", "text", "clip", "molecule"])
def test_the_words_from_before_are_kept(kind: Any) -> None:
    assert kind_named(kind, compares=False) == kind


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ([], "no list of what a model reads; choose from 'picture'"),
        (["pictures"], "'pictures' is unknown; choose from 'picture'"),
        ("words", "'words' is unknown"),
        (["series"], "series of numbers are not read here; choose from"),
        (["picture", "page", "text"], "places of words on a page are not read here"),
        (["sound", "text"], "sounds are not read together with texts here.*each part can be read alone"),
        (["molecule", "picture"], "molecules are not read together with pictures"),
    ],
)
def test_parts_that_are_not_read_are_refused_by_name(kind: Any, said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        kind_named(kind, compares=False)


def test_kinds_of_parts() -> None:
    assert {name: kind_named([name], compares=False) for name in ("picture", "video", "sound", "text", "molecule")} == {  # type: ignore[list-item]
        **dict.fromkeys(("picture", "video", "sound"), "image"),
        **{"text": "text", "molecule": "molecule"},
    }
    assert [kind_named(["picture", "text"], compares=each) for each in (True, False)] == ["clip", "text"]


def test_parts_are_told_by_arguments_and_written_with_them() -> None:
    takes = ("input_ids", "bbox", "attention_mask", "pixel_values")
    assert parts_taken(takes) == ("picture", "text", "page")
    assert in_words(parts_taken(takes), takes) == "pictures (pixel_values), texts (input_ids) and places of words on a page (bbox)"
    assert in_words(["text"]) == "texts"
    assert parts_taken(["x"]) == ()
    assert len({argument for part in PARTS.values() for argument in part.arguments}) == sum(len(part.arguments) for part in PARTS.values())


def test_a_video_may_take_the_place_of_a_picture() -> None:
    reads: Any = ("picture", "video", "text")
    for kind in (["picture", "text"], [*reads], None, "text"):
        check_reads(kind, reads, "writer")
    with pytest.raises(ExplainerError, match="writer reads pictures, videos and texts, so that pictures and texts are read too"):
        check_reads(["video"], ("picture", "video", "text"), "writer")


def test_a_report_says_what_is_not_read() -> None:
    config = hf.LayoutLMConfig(**SMALL, vocab_size=len(wordpiece()), max_position_embeddings=32)
    report = explainers.open(hf.LayoutLMForSequenceClassification(config).eval(), tokenizer=wordpiece(), check="none").report
    assert "texts; not read: places of words on a page (bbox)" in str(report)
    assert "not read" not in str(explainers.open(text_model(), tokenizer=wordpiece(), check="none").report)
