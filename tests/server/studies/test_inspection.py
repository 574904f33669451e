"""Looking inside over HTTP: what the server sends is what the engine computes of the same input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import explainers
from explainers import HEAD_QUANTITIES, OPERATOR_KINDS, RULES, Contrast, Probability, Session
from tests.server.conftest import Check, Site, picture, png
from tests.server.support.tiny_models import TEXT, tiny, tiny_site

PROMPTS = ["a good film", "the bad movie"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        yield one


#: name -> what is asked, the model, the input and the targets of the engine, the label of the one that is studied, the side
CASES: dict[str, tuple[dict[str, Any], str, Any, Any, Any, Any]] = {
    "class": ({"image": png(), "target": ["1", "0"]}, "scenes-vit", picture(), 0, "ant", None),
    "text": ({"model": "reviews-bert", "text": TEXT, "target": "for"}, "reviews-bert", TEXT, "for", None, None),
    "against": (
        {"model": "reviews-bert", "text": TEXT, "target": "for", "against": "unsure"},
        "reviews-bert", TEXT, Contrast("for", "unsure"), "for − unsure", None,
    ),
    "share": (
        {"image": png(), "model": "clip", "prompt": PROMPTS, "read": "probability"},
        "clip", picture(), Probability(PROMPTS[1]), f"p({PROMPTS[1]})", None,
    ),
    "words": (
        {"image": png(), "model": "clip", "prompt": PROMPTS, "side": "text"},
        "clip", picture(), PROMPTS[1], PROMPTS[1], "text",
    ),
}  # fmt: skip
cases = pytest.mark.parametrize("case", CASES)


def made(site: Site, case: str) -> str:
    document = site.ask(methods=["random"], wait=True, **CASES[case][0]).json()
    assert document["state"] == "done", document
    return f"/api/explanations/{document['id']}"


def asked_of(case: str) -> dict[str, Any]:
    _, name, source, target, _, side = CASES[case]
    prompts = PROMPTS if name == "clip" and side is None else None
    return {"model": tiny(name), "inputs": source, "target": target, "side": side, "prompts": prompts}


def post(site: Site, path: str, **body: Any) -> Any:
    answer = site.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """What came over HTTP is that of the engine, but for what differs from run to run."""
    own = {name: value for name, value in ours.items() if name not in ("id", "notes")}
    theirs = json.loads(json.dumps(theirs))
    for one in (own, theirs):
        one.get("map", {}).pop("seconds", None)
    assert own == theirs


@cases
def test_a_mixed_rule(site: Site, case: str) -> None:
    root, label = made(site, case), CASES[case][4]
    rule = {"attention": "constant", "norm": "constant", "activation": "gate", "bias": False}
    ours = post(site, f"{root}/mix", method="fullgrad_plus", rule=rule, target=label)
    same(ours, explainers.mix(**asked_of(case), method="fullgrad_plus", choices=rule).to_json())
    assert ours["rule"]["name"] == "custom"
    assert ours["rule"]["choices"] == {**RULES["gradient"].choices, **rule}


@cases
def test_the_heads(site: Site, case: str) -> None:
    root, label = made(site, case), CASES[case][4]
    for quantity in ("attention", "product"):
        ours = post(site, f"{root}/layers", quantity=quantity, target=label)
        same(ours, explainers.head_maps(Session(**asked_of(case)), quantity).to_json())
    ours = post(site, f"{root}/layers", token=2, block=1, head=0, target=label)
    same(ours, explainers.head_maps(Session(**asked_of(case)), token=2, block=1, head=0).to_json())
    assert ours["token"] == 2
    whole = post(site, f"{root}/layers", target=label)
    some = post(site, f"{root}/layers", block=[1, 0], target=label)
    assert some["blocks"] == [whole["blocks"][1], whole["blocks"][0]]
    assert some["heads"] == whole["heads"] == [len(one["heads"]) for one in whole["blocks"]]


@cases
def test_what_the_blocks_add(site: Site, case: str) -> None:
    root, label = made(site, case), CASES[case][4]
    ours = post(site, f"{root}/contributions", method="fullgrad_plus:libra", target=label)
    same(ours, explainers.contributions(Session(**asked_of(case)), "fullgrad_plus:libra").to_json())


@cases
def test_the_deletion_score_of_a_mix_is_that_of_the_same_map(site: Site, case: str) -> None:
    asked, label = CASES[case][0], CASES[case][4]
    document = site.ask(methods=["fullgrad_plus:libra"], wait=True, **asked).json()
    root = f"/api/explanations/{document['id']}"
    ours = post(site, f"{root}/mix", method="fullgrad_plus", rule=dict(RULES["libra"].choices), target=label)
    score = post(site, f"{root}/deletion-test/score", scores=ours["map"]["scores"], target=label)
    curves = post(site, f"{root}/deletion-test", target=label)
    (most,) = (one for one in curves["curves"] if one["order"] == "most")
    assert score["area"] == pytest.approx(most["area"], rel=1e-6)
    assert {name: score[name] for name in ("read", "how", "tokens")} == {name: curves[name] for name in ("read", "how", "tokens")}


def test_a_rule_that_carries_relevance(site: Site) -> None:
    root = made(site, "text")
    ours = post(site, f"{root}/mix", method="transformer_attribution", rule=dict(RULES["lrp"].choices))
    assert ours["map"]["method"] == "transformer_attribution:lrp"
    assert ours["completeness_error"] is None


def test_what_is_wrong_is_said(site: Site, refused: Check) -> None:
    root = made(site, "class")
    for path, body, said in (
        ("mix", {"method": "fullgrad_plus", "rule": {"norm": "none"}}, "jacobian, constant"),
        ("mix", {"method": "fullgrad_plus", "rule": {"attention": "relevance"}}, "either gradients or relevance"),
        ("mix", {"method": "rollout", "rule": {}}, "no backward signal"),
        ("layers", {"quantity": "heat"}, "attention, gradient"),
        ("layers", {"token": 12}, "there are 12"),
        ("layers", {"block": [0, 9]}, "There is no block 9"),
        ("contributions", {"method": "rollout"}, "gradcam_plus"),
    ):
        document = refused(site.client.post(f"{root}/{path}", json=body), 422, "cannot-answer")
        assert said in document["detail"]
    refused(site.client.post(f"{root}/layers", json={"target": "class 2"}), 404, "no-such-target")
    detail = refused(site.client.post(f"{root}/deletion-test/score", json={"scores": [1.0, 2.0]}), 422, "other-length")["detail"]
    assert detail == "There are 2 scores, and a map of this explanation has 12."
    refused(site.client.post(f"{root}/deletion-test/score", json={"scores": []}), 422, "invalid-request")
    refused(site.client.post(f"{root}/deletion-test/score", json={"scores": [1.0] * 12, "target": "class 2"}), 422, "no-such-target")
    refused(site.client.post(f"{root}/layers", json={"layer": 1}), 422, "invalid-request")
    refused(site.client.post("/api/explanations/none/mix", json={"method": "lrp", "rule": {}}), 404, "no-such-explanation")
    share = made(site, "share")
    detail = refused(site.client.post(f"{share}/layers", json={"quantity": "relevance"}), 422, "cannot-answer")["detail"]
    assert "explain the logit" in detail


def test_what_there_is_to_choose_is_declared_once(site: Site) -> None:
    kinds = site.get("/api/rules")["kinds"]
    assert kinds == json.loads(json.dumps([kind.to_json() for kind in OPERATOR_KINDS.values()]))
    quantities = site.get("/api/quantities")["quantities"]
    assert [one["name"] for one in quantities] == list(HEAD_QUANTITIES)
    assert all(one["says"] and one["title"] for one in quantities)


def test_a_cosine_by_head_and_without_one(site: Site, refused: Check) -> None:
    root = made(site, "share")
    detail = refused(site.client.post(f"{root}/similarity", json={}), 422, "cannot-answer")["detail"]
    assert "no sum of cosines" in detail
    document = site.ask(**{**CASES["share"][0], "read": "logit", "methods": ["random"]}, wait=True).json()
    root, session = f"/api/explanations/{document['id']}", Session(tiny("clip"), picture(), PROMPTS[1], prompts=PROMPTS)
    ours = post(site, f"{root}/similarity", target=PROMPTS[1])
    theirs = explainers.decompose_similarity(session).to_json()
    assert ours["notes"] == theirs.pop("notes")
    same(ours, theirs)
    ours = post(site, f"{root}/without-head", target=PROMPTS[1], block=1, head=0)
    same(ours, explainers.similarity_without_head(session, 1, 0).to_json())
    detail = refused(site.client.post(f"{root}/without-head", json={"block": 9, "head": 0}), 422, "cannot-answer")["detail"]
    assert "There is no block 9" in detail
    words = made(site, "words")
    detail = refused(site.client.post(f"{words}/similarity", json={}), 422, "cannot-answer")["detail"]
    assert "does not compare an image with prompts here" in detail


def test_outlier_tokens_are_looked_for_once_and_moved(site: Site, refused: Check) -> None:
    fields: dict[str, Any] = {"image": png(), "target": ["0"], "methods": ["random"]}
    detail = refused(site.ask(**fields, outlier_tokens="move", wait=True), 422, "cannot-explain")["detail"]
    assert "not known: find them once" in detail
    root = made(site, "class")
    found = post(site, f"{root}/registers")
    assert found["known"]["pictures"] == "21 of sample-photos, 79 of scenes"
    assert found["says"] == post(site, f"{root}/registers")["says"]
    assert found["can_move"] == bool(found["known"]["neurons"])  # of a tiny random model nothing stands apart
    assert found["can_move"] is False
    assert found["outliers"] is None
    detail = refused(site.ask(**fields, outlier_tokens="move", wait=True), 422, "cannot-explain")["detail"]
    assert "there is nothing to move" in detail
    refused(site.ask(**fields, outlier_tokens="all"), 422, "unknown-way")
