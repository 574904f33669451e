"""Tokens taken away over HTTP: the numbers are the model's own on shorter inputs, made here by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import explainers
from explainers.analysis.deletion_test import run_deletion
from explainers.models.inputs.types import TextPair
from explainers.models.removal.input_removal import input_removal
from tests.server.conftest import Check, Site, picture, png
from tests.server.support.tiny_models import make_tiny, tiny, tiny_site

TEXT = "not a bad movie, the plot is well-made!"
SOME = ["rollout", "fullgrad_plus:libra", "input_x_gradient"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        yield one


def image(site: Site, **fields: Any) -> Any:
    return site.ask(png(), wait=True, **{"methods": SOME, **fields}).json()


def text(site: Site, said: str = TEXT, **fields: Any) -> Any:
    return site.ask(model="reviews-bert", text=said, wait=True, **{"methods": SOME, "target": "for", **fields}).json()


def remove_tokens(site: Site, document: Any, **body: Any) -> Any:
    answer = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def answer_without(document: Any, gone: list[int], target: str = "for") -> tuple[float, float]:
    """Logit and probability of the tiny text model, asked here with these tokens left out of the ids."""
    model = tiny("reviews-bert")
    source = document["input"]["text"]
    pair = document["input"].get("text_pair")
    tensors = model.tensors(source if pair is None else TextPair(source, pair))
    stay = [i for i in range(tensors["input_ids"].shape[1]) if i not in gone]
    with torch.no_grad():
        logits = model.forward({name: tensor[:, stay] for name, tensor in tensors.items()})[0]
    index = list(model.labels).index(target)
    return float(logits[index]), float(logits.softmax(0)[index])


def test_the_curves_of_a_text_are_the_models_answers_to_shorter_texts(site: Site) -> None:
    document = text(site)
    found = remove_tokens(site, document, fractions=[0, 0.25, 0.5, 1])
    words = [i for i, token in enumerate(document["input"]["tokens"]) if not token["special"]]
    assert (found["how"], found["tokens"], found["read"], found["target"]) == ("removed", len(words), "probability", "for")
    assert found["counts"] == [int(share * len(words) + 0.5) for share in (0, 0.25, 0.5, 1)]
    assert [(one["method"], one["order"]) for one in found["curves"]] == [(spec, order) for order in ("most", "least") for spec in SOME]
    for one in found["curves"]:
        scores = np.array(next(m["scores"] for m in document["maps"] if m["method"] == one["method"]))[words]
        order = np.argsort(-scores if one["order"] == "most" else scores, kind="stable")
        for count, logit, probability in zip(found["counts"], one["logit"], one["probability"], strict=True):
            assert (logit, probability) == pytest.approx(answer_without(document, [words[i] for i in order[:count]]), rel=1e-4)
        gone = np.array(found["counts"]) / len(words)
        assert one["area"] == pytest.approx(np.trapezoid(one["probability"], gone))


def test_the_curves_of_an_image_begin_and_end_alike_and_pass_through_single_answers(site: Site) -> None:
    document = image(site)
    found = remove_tokens(site, document)
    assert (found["how"], found["tokens"], found["fractions"][0], found["fractions"][-1]) == ("removed", 12, 0, 1)
    assert found["notes"] == []
    target = document["targets"][0]
    for one in [*found["curves"], found["random"]]:
        assert (one["logit"][0], one["probability"][0]) == pytest.approx((target["logit"], target["probability"]), rel=1e-4)
        assert one["logit"][-1] == pytest.approx(found["random"]["logit"][-1])
        assert len(one["probability"]) == len(found["fractions"])
    step = found["fractions"].index(0.3)
    for one in found["curves"]:
        single = remove_tokens(site, document, method=one["method"], order=one["order"], fraction=0.3)
        scores = np.array(next(m["scores"] for m in document["maps"] if m["method"] == one["method"]))
        order = np.argsort(-scores if one["order"] == "most" else scores, kind="stable")
        assert single["removed"] == sorted(order[: found["counts"][step]].tolist())
        for name in ("logit", "probability"):
            assert single[name] == pytest.approx(one[name][step], rel=1e-4)
        named = remove_tokens(site, document, remove=single["removed"])
        left = remove_tokens(site, document, keep=[i for i in range(12) if i not in single["removed"]])
        assert named["top"] == left["top"] == single["top"]
        assert named["removed"] == left["removed"] == single["removed"]


def test_the_ranking_goes_by_the_gap_and_has_chance_in_it(site: Site) -> None:
    found = remove_tokens(site, text(site))
    rows = found["ranking"]
    areas = {(one["method"], one["order"]): one["area"] for one in found["curves"]}
    for row in rows:
        control = row["method"] == "random"
        most, least = (found["random"]["area"],) * 2 if control else (areas[row["method"], "most"], areas[row["method"], "least"])
        assert (row["most"], row["least"], row["gap"]) == (most, least, pytest.approx(least - most))
        assert row.get("control", False) is control
    assert [row["gap"] for row in rows] == sorted((row["gap"] for row in rows), reverse=True)
    assert [row["rank"] for row in rows if row["rank"]] == [1, 2, 3]
    assert found["random"]["seeds"] == 5
    one_order = remove_tokens(site, text(site), order="most", methods=SOME[:2])
    assert [row["most"] for row in one_order["ranking"]] == sorted(row["most"] for row in one_order["ranking"])
    assert {(one["method"], one["order"]) for one in one_order["curves"]} == {(SOME[0], "most"), (SOME[1], "most")}
    assert "gap" not in one_order["ranking"][0]


def test_prompts_share_their_probability_and_a_lone_one_is_read_by_its_logit(site: Site) -> None:
    document = image(site, model="clip", prompt=["a good film", "the bad movie"])
    found = remove_tokens(site, document, target="the bad movie", fractions=[0, 0.5])
    target = document["targets"][1]
    assert (found["target"], found["read"]) == ("the bad movie", "probability")
    assert found["curves"][0]["logit"][0] == pytest.approx(target["logit"], rel=1e-4)
    assert found["curves"][0]["probability"][0] == pytest.approx(target["probability"], rel=1e-4)
    assert [one["label"] for one in remove_tokens(site, document, remove=[0])["top"]] in (
        ["a good film", "the bad movie"],
        ["the bad movie", "a good film"],
    )
    alone = remove_tokens(site, image(site, model="clip", prompt=["a good film"]), fractions=[0, 0.5])
    assert (alone["read"], alone["curves"][0]["probability"]) == ("logit", [1, 1])


def test_a_contrast_is_read_by_the_difference_of_logits(site: Site) -> None:
    document = text(site, against="unsure")
    found = remove_tokens(site, document, remove=[1, 2])
    expected = answer_without(document, [1, 2])[0] - answer_without(document, [1, 2], "unsure")[0]
    assert (found["target"], found["read"]) == ("for − unsure", "logit")
    assert found["logit"] == pytest.approx(expected, rel=1e-3)
    assert found["probability"] == pytest.approx(answer_without(document, [1, 2])[1], rel=1e-4)


def test_a_probability_is_read_as_one(site: Site) -> None:
    found = remove_tokens(site, text(site, read="probability", methods="input_x_gradient"), remove=[1])
    assert (found["target"], found["read"]) == ("p(for)", "probability")


def test_words_are_removed_and_replaced(site: Site) -> None:
    document = text(site)
    words = document["input"]["words"]
    bad = next(i for i, word in enumerate(words) if word["text"] == "bad")
    plot = next(word for word in words if word["text"] == "plot")
    found = remove_tokens(site, document, replace={str(bad): "good"}, remove=plot["tokens"])
    assert found["text"] == TEXT.replace("bad", "good")
    assert found["removed"] == plot["tokens"]
    told = {"input": {"text": found["text"]}}
    model = tiny("reviews-bert")
    tokens = model.prepare(found["text"]).inputs[0].tokens  # type: ignore[union-attr]
    start = found["text"].index("plot")
    place = [i for i, token in enumerate(tokens) if start <= token.start < token.end <= start + 4]
    assert place
    assert (found["logit"], found["probability"]) == pytest.approx(answer_without(told, place), rel=1e-4)
    longer = remove_tokens(site, document, replace={str(bad): "made plot movie", "0": "the"})
    assert longer["text"] == TEXT.replace("bad", "made plot movie").replace("not", "the")
    assert len(model.windows(longer["text"]) or ()) == 2  # it does not fit any more
    assert longer["logit"] == pytest.approx(explainers.explain(model, longer["text"], "for", "random").target.logit, rel=1e-4)


def test_both_texts_of_a_pair_can_be_edited(site: Site) -> None:
    document = text(site, "a bad plot", text_pair="the plot is bad")
    second = [i for i, word in enumerate(document["input"]["words"]) if word["part"] == 1]
    last = document["input"]["words"][second[-1]]
    found = remove_tokens(site, document, replace={str(second[1]): "movie"}, remove=last["tokens"])
    told = {"input": {"text": "a bad plot", "text_pair": "the movie is bad"}}
    pieces = tiny("reviews-bert").prepare(TextPair("a bad plot", "the movie is bad")).inputs[0].tokens  # type: ignore[union-attr]
    gone = [i for i, token in enumerate(pieces) if token.part == 1 and (token.start, token.end) == (13, 16)]
    assert found["logit"] == pytest.approx(answer_without(told, gone)[0], rel=1e-4)


def test_patches_are_painted_or_taken_out_as_asked(site: Site) -> None:
    document = image(site)
    model = tiny(document["model"])
    target = document["targets"][0]
    tensors = model.tensors(picture())
    hidden = [1, 5, 6]
    rows, columns = document["maps"][0]["grid"]
    grey = tensors["pixel_values"].clone()
    height, width = grey.shape[-2] // rows, grey.shape[-1] // columns
    for patch in hidden:
        y, x = divmod(patch, columns)
        grey[..., y * height : (y + 1) * height, x * width : (x + 1) * width] = 0  # the mean colour, once normalised
    with torch.no_grad():
        logit = float(model.forward({"pixel_values": grey})[0, target["index"]])
    painted = remove_tokens(site, document, remove=hidden, how="painted")
    assert (painted["how"], painted["logit"]) == ("painted", pytest.approx(logit, rel=1e-4))
    removed = [remove_tokens(site, document, remove=hidden, **way) for way in ({"how": "removed"}, {})]
    assert [answer["how"] for answer in removed] == ["removed"] * 2
    assert removed[0]["logit"] == pytest.approx(removed[1]["logit"], rel=1e-4)
    assert removed[0]["logit"] != pytest.approx(logit, rel=1e-3)


def test_a_way_of_hiding_patches_is_none_of_a_text(site: Site, refused: Check) -> None:
    answer = site.client.post(f"/api/explanations/{text(site)['id']}/deletion-test", json={"remove": [1], "how": "painted"})
    refused(answer, 422, "wrong-way")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"target": "nobody"}, "no-such-target"),
        ({"methods": ["raw_attention"]}, "no-such-map"),
        ({"method": "raw_attention", "fraction": 0.5}, "no-such-map"),
        ({"method": "rollout"}, "no-fraction"),
        ({"fraction": 0.5}, "unclear"),
        ({"remove": [1], "keep": [2]}, "unclear"),
        ({"how": "painted"}, "unclear"),
        ({"remove": [1], "methods": ["rollout"]}, "unclear"),
        ({"remove": [0]}, "no-such-token"),
        ({"remove": [999]}, "no-such-token"),
        ({"fractions": [0.5, 0.5]}, "no-curve"),
        ({"fractions": [0, 2]}, "invalid-request"),
        ({"other": 1}, "invalid-request"),
        ({"replace": {"99": "x"}}, "no-such-word"),
        ({"replace": {"0": " "}}, "empty-word"),
        ({"replace": {"0": "the"}, "remove": [1]}, "both-edits"),
    ],
)
def test_what_makes_no_sense_is_told(site: Site, refused: Check, body: dict[str, Any], kind: str) -> None:
    answer = site.client.post(f"/api/explanations/{text(site)['id']}/deletion-test", json=body)
    assert refused(answer, 422, kind)["send"]


def likeness_without(prompt: Any, gone: list[int]) -> float:
    """The logit of the tiny CLIP model for a prompt with these tokens left out of the ids, made here from its two towers."""
    model = tiny("clip")
    clip: Any = model.module
    assert model.prompt_inputs is not None
    ids = model.prompt_inputs([prompt["prompt"]]).tensors["input_ids"]
    shorter = ids[:, [i for i in range(ids.shape[1]) if i not in gone]]
    with torch.no_grad():
        text = clip.get_text_features(input_ids=shorter).pooler_output
        seen = clip.get_image_features(**model.tensors(picture())).pooler_output
        return float(clip.logit_scale.exp() * torch.cosine_similarity(text, seen)[0])


def test_words_are_taken_from_a_prompt_and_its_likeness_changes(site: Site) -> None:
    document = image(site, model="clip", prompt=["a good film", "the bad movie is not good"], side="text")
    for prompt, target in zip(document["prompts"], document["targets"], strict=True):
        words = [i for i, token in enumerate(prompt["tokens"]) if not token["special"]]
        found = remove_tokens(site, document, target=prompt["prompt"], fractions=[0, 0.25, 0.5, 1])
        assert (found["how"], found["tokens"], found["read"]) == ("removed", len(words), "logit")
        for one in found["curves"]:
            maps = (m for m in document["maps"] if m["method"] == one["method"] and m["target"] == prompt["prompt"])
            scores = np.array(next(maps)["scores"])[words]
            order = np.argsort(-scores if one["order"] == "most" else scores, kind="stable")
            expected = [likeness_without(prompt, [words[i] for i in order[:count]]) for count in found["counts"]]
            assert one["logit"] == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert found["curves"][0]["logit"][0] == pytest.approx(target["logit"], rel=1e-4)
        assert found["curves"][0]["logit"][-1] != pytest.approx(target["logit"], rel=1e-3)


def test_a_prompt_that_is_shortened_is_compared_with_the_others_as_they_were(site: Site) -> None:
    document = image(site, model="clip", prompt=["a good film", "the bad movie"], side="text")
    gone = document["prompts"][1]["words"][1]["tokens"]
    found = remove_tokens(site, document, target="the bad movie", remove=gone)
    shares = torch.tensor([document["targets"][0]["logit"], likeness_without(document["prompts"][1], gone)]).softmax(0)
    assert found["probability"] == pytest.approx(float(shares[1]), rel=1e-4)
    assert {one["label"]: one["probability"] for one in found["top"]} == pytest.approx(
        dict(zip(["a good film", "the bad movie"], shares.tolist(), strict=True)), rel=1e-4
    )
    assert (found["text"], found["removed"]) == ("the bad movie", gone)


def test_words_are_not_replaced_in_an_image_nor_in_a_prompt(site: Site, refused: Check) -> None:
    words = image(site, model="clip", prompt=["a good film"], side="text")
    for document in (image(site), words):
        answer = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json={"replace": {"0": "x"}})
        refused(answer, 422, "not-a-text")
    answer = site.client.post(f"/api/explanations/{words['id']}/deletion-test", json={"remove": [0]})
    refused(answer, 422, "no-such-token")


def test_the_call_is_documented(site: Site) -> None:
    call = site.get("/api/openapi.json")["paths"]["/api/explanations/{id}/deletion-test"]["post"]
    assert "ranking" in call["description"]
    assert call["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/DeletionQuestion")


def test_the_picture_is_the_one_that_was_given(site: Site) -> None:
    """The image that is asked about is the upload, not the picture that the page shows of it."""
    model, document = tiny("scenes-vit"), image(site)
    with torch.no_grad():
        logits = model.forward(model.tensors(picture()))[0]
    found = remove_tokens(site, document, remove=[])
    assert found["logit"] == pytest.approx(float(logits[document["targets"][0]["index"]]), rel=1e-5)


OUTPUTS = {"scenes-vit": "sigmoid", "reviews-bert": "regression"}


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server whose models have other outputs than classes that exclude each other."""

    def load(name: str, device: str | None = None) -> Any:
        model = make_tiny(name, device)
        return replace(model, output=OUTPUTS.get(name, model.output))

    with tiny_site(tmp_path_factory.mktemp("declared"), load) as one:
        yield one


def test_a_label_of_its_own_is_read_by_its_sigmoid(declared: Site) -> None:
    document = image(declared, target=["ant", "dog"])
    model = tiny("scenes-vit")
    logits = torch.tensor([one["logit"] for one in document["top"]], dtype=torch.float64)
    shares = (logits / model.calibration.temperature).sigmoid()
    assert [one["probability"] for one in document["top"]] == pytest.approx(shares.tolist(), rel=1e-4)
    for target in document["targets"]:
        found = remove_tokens(declared, document, target=target["label"], fractions=[0, 0.5, 1])
        assert found["read"] == "probability"
        for curve in found["curves"]:
            assert curve["probability"][0] == pytest.approx(target["probability"], rel=1e-4)
            own = torch.tensor(curve["logit"], dtype=torch.float64) / model.calibration.temperature
            assert curve["probability"] == pytest.approx(own.sigmoid().tolist(), rel=1e-5)
        single = remove_tokens(declared, document, target=target["label"], remove=[1, 2])
        own = torch.tensor([one["logit"] for one in single["top"]], dtype=torch.float64) / model.calibration.temperature
        assert [one["probability"] for one in single["top"]] == pytest.approx(own.sigmoid().tolist(), rel=1e-5)


def test_a_value_is_read_as_it_is(declared: Site) -> None:
    document = text(declared)
    target = document["targets"][0]
    assert "probability" not in target
    found = remove_tokens(declared, document, fractions=[0, 0.5, 1])
    assert found["read"] == "value"
    for curve in found["curves"]:
        assert set(curve) == {"method", "order", "area", "value"}
        assert curve["value"][0] == pytest.approx(target["logit"], rel=1e-4)
    single = remove_tokens(declared, document, remove=[1, 2])
    assert single["value"] == pytest.approx(answer_without(document, [1, 2])[0], rel=1e-4)
    assert all(set(one) == {"label", "index", "logit"} for one in single["top"])
    scores = document["maps"][0]["scores"]
    answer = declared.client.post(f"/api/explanations/{document['id']}/deletion-test/score", json={"scores": scores}).json()
    assert answer["read"] == "value"
    body = {"model": "reviews-bert", "template": "a {} film", "groups": [{"name": "x", "words": ["good", "bad"]}], "target": "for"}
    probed = declared.client.post("/api/probes", json=body).json()
    assert "probability" not in probed["rows"][0]
    assert "probability" not in probed["groups"][0]


def test_how_tokens_are_taken_away_is_found_out_once_an_explanation(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strokes of the brush, shares of a map and curves ask the same removal; of all but the last few explanations it is let go."""
    made: list[Any] = []

    def counted(*given: Any, **how: Any) -> Any:
        made.append(given)
        return input_removal(*given, **how)

    monkeypatch.setattr("vitrine_server.studies.deletion_test.input_removal", counted)
    document = image(site, target="2", methods=["rollout"])
    first = remove_tokens(site, document, remove=[1, 2])
    remove_tokens(site, document, remove=[1, 2, 3])
    remove_tokens(site, document, method="rollout", fraction=0.5)
    remove_tokens(site, document)
    assert remove_tokens(site, document, remove=[1, 2]) == first
    assert len(made) == 1
    for target in ("0", "1", "3", "4"):
        another = image(site, target=target, methods=["rollout"])
        remove_tokens(site, another, remove=[0])
        remove_tokens(site, another)
    remove_tokens(site, document, remove=[1, 2])
    assert len(made) == 6


def test_the_deletion_test_is_made_once_for_a_question(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted(*given: Any, **how: Any) -> Any:
        made.append(given)
        return run_deletion(*given, **how)

    monkeypatch.setattr("vitrine_server.studies.deletion_test.run_deletion", counted)
    document = image(site, target=["3", "4"], methods=["rollout", "random"])
    first = remove_tokens(site, document)
    assert remove_tokens(site, document, target="dog", methods=["rollout", "random"]) == first
    assert len(made) == 1
    for body in ({"target": "eel"}, {"methods": ["rollout"]}, {"order": "least"}, {"fractions": [0, 0.5, 1]}):
        assert remove_tokens(site, document, **body) != first
    assert len(made) == 5
