"""Who may do what: every cell of the tables of docs/visitors.md, asked of a server over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.server.conftest import Site, Sites, png

VISITORS = (ROOT / "docs" / "visitors.md").read_text("utf-8")


def table(first_column: str) -> dict[str, dict[str, str]]:
    """A table of the document, by the heading of its second column: what -> who -> yes or no."""
    lines = VISITORS[VISITORS.index(f"| may | {first_column} |") :].split("\n\n")[0].splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


OF_AN_EXPLANATION, OF_A_SERVER = table("who made it"), table("this machine alone")


class Explained:
    """An explanation of one visitor, and what can be done about it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.picture = png(len(site.models.calls))
        answer = site.ask(self.picture, wait=True)
        assert answer.status_code == 200, answer.text
        self.id: str = answer.json()["id"]
        self.path = f"/api/explanations/{self.id}"

    def read(self) -> list[Any]:
        files = ("original.jpg", "tensors.safetensors", "bundle.zip", "maps/rollout.json")
        ways = ("", "/summary", "/events", "/code", "/agreement", *(f"/{file}" for file in files))
        return [self.site.client.get(self.path + way) for way in ways]

    def ask_more(self) -> list[Any]:
        return [self.site.client.post(f"{self.path}/layers", json={"quantity": quantity}) for quantity in ("attention", "gradient")]

    def name(self) -> list[Any]:
        return [self.site.client.patch(self.path, json={"title": "mine"})]

    def delete(self) -> list[Any]:
        return [self.site.client.delete(self.path)]

    def stop(self) -> list[Any]:
        return [self.site.client.post(f"{self.path}/stop"), self.site.client.put(f"{self.path}/order", json={"methods": ["rollout"]})]

    def source(self) -> list[Any]:
        return [self.site.ask(source=self.id, target="dog"), self.site.ask(source=self.id)]

    def again(self) -> list[Any]:
        return [self.site.client.post(f"{self.path}/again")]


DEEDS: dict[str, Callable[[Explained], list[Any]]] = {
    "read it: answer, maps, events, exports": Explained.read,
    "ask its model more about it: deletion test, layers, mixed rules": Explained.ask_more,
    "name it": Explained.name,
    "delete it": Explained.delete,
    "stop it, or say which maps come first": Explained.stop,
    "ask about its input again (`source`)": Explained.source,
    "ask it again as it was": Explained.again,
}
SAME = "be given it for the same question"  # no refusal, but another explanation


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Sites(tmp_path_factory.mktemp("apart"))(visitors="apart") as site:
        yield site


def become(site: Site, who: str | None) -> str | None:
    """Be the browser with this cookie, or one with none; gives the cookie that there was."""
    before = site.client.cookies.get("vitrine-visitor")
    site.client.cookies.clear()
    if who is not None:
        site.client.cookies.set("vitrine-visitor", who)
    return before


def test_the_document_lists_what_is_tried() -> None:
    assert set(OF_AN_EXPLANATION) == {*DEEDS, SAME}
    assert set(OF_A_SERVER) == set(CALLS)


@pytest.mark.parametrize("deed", DEEDS)
def test_of_an_explanation(deed: str, apart: Site) -> None:
    explained = Explained(apart)
    owner = become(apart, None)
    assert owner is not None
    apart.client.get("/")  # another browser, which has a cookie of its own
    assert apart.client.cookies.get("vitrine-visitor") not in (owner, None)
    before = apart.get(explained.path)
    assert before.pop("shared") is True
    for who, cookie in (("who has its link", None), ("who made it", owner)):
        if cookie is not None:
            become(apart, cookie)
        answers = DEEDS[deed](explained)
        if OF_AN_EXPLANATION[deed][who] == "yes":
            assert all(answer.is_success for answer in answers), [answer.text for answer in answers]
        else:
            assert all(answer.json()["type"] == "urn:vitrine:problem:not-yours" for answer in answers), deed
            assert all(answer.status_code == 403 for answer in answers)
            become(apart, owner)
            assert apart.get(explained.path) == before  # and nothing of it was changed


def test_the_same_question(apart: Site) -> None:
    """B asks what A asked: nothing that A's has is in the answer."""
    assert OF_AN_EXPLANATION[SAME] == {"who made it": "yes", "who has its link": "no"}
    explained = Explained(apart)
    explained.name()
    assert apart.ask(explained.picture, wait=True).json()["id"] == explained.id
    owner, calls = become(apart, None), len(apart.models.calls)
    other = apart.ask(explained.picture, wait=True).json()
    assert other["id"] != explained.id
    assert "title" not in other
    assert other["created"] > apart.get(explained.path)["created"]
    assert len(apart.models.calls) > calls  # made again: how long it takes tells nothing
    become(apart, owner)
    assert apart.ask(explained.picture, wait=True).json()["id"] == explained.id


def test_what_was_asked_of_a_sample_is_copied(tmp_path: Path) -> None:
    """Nobody waits for it twice; the copy is new, without the title, and its visitor's."""
    folder = tmp_path / "samples"
    folder.mkdir()
    (folder / "index.json").write_text('{"samples": [{"id": "one", "kind": "image", "image": "one.png"}]}')
    (folder / "one.png").write_bytes(png(5))
    with Sites(tmp_path / "home", [folder])(visitors="apart") as site:
        first = site.ask(png(5), wait=True).json()
        path = f"/api/explanations/{first['id']}"
        site.client.patch(path, json={"title": "mine"})
        calls = len(site.models.calls)
        become(site, None)
        copy = site.ask(png(5), wait=True).json()
        assert len(site.models.calls) == calls
        assert {name for name in first if first[name] != copy[name]} == {"id", "created"}
        assert copy.keys() == first.keys()
        mine = f"/api/explanations/{copy['id']}"
        assert site.ask(png(5), wait=True).json()["id"] == copy["id"]
        for file in ("original.jpg", "tensors.safetensors"):
            assert site.client.get(f"{mine}/{file}").content == site.client.get(f"{path}/{file}").content
        assert site.ask(source=copy["id"], target="dog").status_code == 202
        assert site.client.delete(mine).status_code == 204
        assert site.get(path)["title"] == "mine"
        assert site.ask(png(5), target="dog", wait=True).json()["id"] not in (first["id"], copy["id"])


CALLS: dict[str, Callable[[Site], list[Any]]] = {
    "see whether the server lives and is ready": lambda site: [site.client.get(path) for path in ("/healthz", "/readyz")],
    "open the pages and read by a link": lambda site: [
        site.client.get(path) for path in ("/", "/image", "/history", "/api/models", "/api/samples", f"/api/explanations/{'0' * 32}")
    ],
    "ask for an explanation": lambda site: [site.ask(png(99))],
    "load a model of the hub": lambda site: (
        [site.client.post("/api/models", json={"name": name}) for name in ("timm/never-heard-of", "timm/listed")]
        + [site.ask(png(98), model="timm/other")]
    ),
    "begin, stop, resume and delete a run or a collection": lambda site: [
        site.client.post("/api/runs", json=RUN),
        site.client.delete("/api/runs/current"),
    ],
    "bring a model, by upload or path": lambda site: [
        site.client.post("/api/opening"),
        site.client.post("/api/opening/look", json={"path": str(site.models)}),
    ],
}
RUN = {"model": "scenes-vit", "dataset": "scenes", "methods": ["rollout"], "metrics": ["mif"], "limit": 2}
MODES: dict[str, dict[str, Any]] = {
    "this machine alone": {},
    "others reach it": {"host": "0.0.0.0", "allowed_hosts": "testserver"},
    "with a token: who has none": {"token": "a token of many letters".replace(" ", "-")},
    "read-only": {"read_only": True},
}
REFUSALS = {"token-needed", "read-only", "models-not-allowed", "runs-not-allowed", "own-models-not-allowed"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Site]]:
    with ExitStack() as stack:
        sites = {}
        for mode, settings in MODES.items():
            site = stack.enter_context(Sites(tmp_path_factory.mktemp("mode"))(loaded=False, **settings))
            site.client.base_url = "http://127.0.0.1:8000"  # type: ignore[assignment]
            sites[mode] = site
        yield sites


def refusals(answers: list[Any]) -> set[str]:
    """What kept somebody from something; "" where nothing did."""
    return {str(answer.json()["type"]).rpartition(":")[2] if answer.status_code in (401, 403) else "" for answer in answers}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("what", CALLS)
def test_of_a_server(mode: str, what: str, servers: dict[str, Site]) -> None:
    answers = CALLS[what](servers[mode])
    said = [answer.text for answer in answers]
    if OF_A_SERVER[what][mode] == "yes":
        assert refusals(answers) == {""}, said
    else:
        assert refusals(answers) <= REFUSALS, said


def test_what_is_allowed_others_too(tmp_path: Path) -> None:
    settings = {**MODES["others reach it"], "allow_models": True, "allow_runs": True, "own_models": "uploads"}
    with Sites(tmp_path)(loaded=False, **settings) as site:
        for what in ("load a model of the hub", "begin, stop, resume and delete a run or a collection"):
            assert refusals(CALLS[what](site)) == {""}, what
        upload, path = CALLS["bring a model, by upload or path"](site)
        assert (upload.status_code, path.status_code) == (201, 403)
