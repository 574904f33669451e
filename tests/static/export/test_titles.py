"""What a figure and its file are called: the model, the question and the class, by the page and by the server alike."""

from __future__ import annotations

from typing import Any

from tests.support.node import compute_all
from vitrine_server.export.file_names import as_download, download_name

TITLE = "async (explanations) => (await script('export/titles.js')).titleOf(explanations)"
NAME = "async ([explanation, ...parts]) => (await script('export/titles.js')).nameOf([explanation], ...parts)"


def explained(model: str, *labels: str, first: str = "", **more: Any) -> dict[str, Any]:
    return {"model": model, "targets": [{"label": label, **more} for label in labels], "top": [{"label": first or labels[0]}]}


def test_a_title_says_the_model_the_question_and_the_class() -> None:
    cat, dog = explained("photos-vit", "cat"), explained("photos-vit", "dog", first="cat")
    unsure = {"label": "a cat!", "prompt": "a cat!", "abstention": {"kind": "perhaps_in_picture"}}
    cases = {
        "photos-vit: what made it say “cat”": [cat],
        "photos-vit: what speaks for “dog”": [dog],
        "model: what made it say “cat”": [explained("/srv/models/model", "cat")],
        "photos-vit and scenes-vit: what made them say “cat”": [cat, explained("scenes-vit", "cat")],
        "photos-vit and scenes-vit: what speaks for “cat”": [cat, explained("scenes-vit", "cat", first="dog")],
        "clip: what speaks for “a cat!”, “a cup”": [explained("clip", "a cat!", "a cup", prompt="asked")],
        "clip: where it may have found “a cat!”": [{"model": "clip", "targets": [unsure]}],
        "clip: which words counted in “a cat!”": [{"model": "clip", "targets": [unsure], "prompts": []}],
        "reviews: what speaks for “good rather than bad”": [explained("reviews", "good − bad", of="good", against="bad")],
    }
    assert compute_all(TITLE, cases.values()) == list(cases)


def test_the_page_and_the_server_give_files_the_same_names() -> None:
    cases: dict[str, list[Any]] = {
        "vitrine-photos-vit-sussex-spaniel-attnlrp": [explained("photos-vit", "Sussex spaniel"), "AttnLRP"],
        "vitrine-clip-a-cat!-fullgrad+-libra": [explained("clip", "a cat!"), "FullGrad+ · Libra"],
        "vitrine-clip-a-cat-fullgrad-libra": [explained("clip", "a cat"), "FullGrad · Libra"],
        "vitrine-clip-a-cat-a-cup": [explained("clip", "a cat", "a cup")],
        "vitrine-clip-a-cat-and-2-more": [explained("clip", "a cat", "a cup", "a bee")],
        "vitrine-reviews-good-rather-than-bad-curves": [explained("reviews", "good − bad", of="good", against="bad"), "curves"],
        "vitrine-model-кот": [explained("/srv/models/model", "Кот")],
        f"vitrine-clip-{'a' * 60}": [explained("clip", "a" * 60 + " long prompt")],
    }
    assert compute_all(NAME, cases.values()) == list(cases)
    assert [download_name(*case) for case in cases.values()] == list(cases)


def test_a_name_that_is_not_english_goes_through_the_header() -> None:
    header = as_download("vitrine-model-кот.npy")["Content-Disposition"]
    assert header == "attachment; filename=\"vitrine-model-.npy\"; filename*=UTF-8''vitrine-model-%D0%BA%D0%BE%D1%82.npy"
    assert as_download("a.png", is_shown=True)["Content-Disposition"].startswith("inline; ")
