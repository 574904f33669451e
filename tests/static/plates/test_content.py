"""What the parts of an input are called, and methods next to each other."""

from __future__ import annotations

from typing import Any

from tests.support.node import compute

NOUN = "async (info) => (await script('plates/content.js')).partsNoun(info)"
NAMES = "async (variants) => [...(await script('core/registry.js')).methodNames(variants)]"


def text(pieces: int, words: int, **more: Any) -> dict[str, Any]:
    ends = [{"special": True}]
    return {"kind": "text", "tokens": [*ends, *[{"special": False}] * pieces, *ends], "words": [{}] * words, **more}


def test_parts_of_a_text_are_words_only_where_the_model_cuts_none() -> None:
    assert compute(NOUN, {"input": text(13, 12)}) == "word pieces"
    assert compute(NOUN, {"input": text(12, 12)}) == "words"
    assert compute(NOUN, {"input": text(12, 12, molecule={})}) == "atoms"
    assert compute(NOUN, {"input": {"kind": "image"}}) == "patches"
    assert compute(NOUN, {"input": {"kind": "image"}, "prompts": [text(2, 2), text(3, 2)]}) == "word pieces"
    assert compute(NOUN, {"input": {"kind": "image"}, "prompts": [text(2, 2), text(3, 3)]}) == "words"


def test_methods_are_called_as_on_their_plates_with_the_rule_only_where_two_titles_are_the_same() -> None:
    def variant(spec: str, title: str, rule: str | None) -> dict[str, Any]:
        return {"spec": spec, "title": title, "rule": rule}

    names = dict(compute(NAMES, [variant("a", "AttnLRP", "attnlrp"), variant("b", "Rollout", None)]))
    assert names == {"a": "AttnLRP", "b": "Rollout"}
    names = dict(compute(NAMES, [variant("a", "LRP", "gradient"), variant("b", "LRP", "libra"), variant("a", "LRP", "gradient")]))
    assert list(names) == ["a", "b"]
    assert len(set(names.values())) == 2
    assert all(name.startswith("LRP, rule ") for name in names.values())
