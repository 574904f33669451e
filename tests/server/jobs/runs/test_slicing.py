"""Searches for slices that visitors begin: watched, stopped, gone on with, deleted; whose they are, and what is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import explainers
from explainers.collection.slices.records import Slices
from tests.server.conftest import Check, Site, Sites, png
from tests.server.support import collecting
from tests.support.made_up_collection import made_up_row, write_collection

LABELLED = {"zebra/a.png": png(), "dog/b.png": png(1), "dog/c.png": png(2)}


def collected(site: Site) -> str:
    """A finished collection of the visitor's own pictures; its id."""
    name = collecting.begun(site, dataset=collecting.sent(site, "my.zip", collecting.packed(LABELLED)), labels=True)
    assert collecting.ended(site, name)["state"] == "done"
    return name


def begun(site: Site, collection: str, **body: Any) -> str:
    answer = site.client.post(f"/api/collections/{collection}/slices", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def ended(site: Site, search: str) -> Any:
    assert site.events(f"/api/slices/{search}/events")[-1][1] == "ended"
    return site.get(f"/api/slices/{search}")


def test_a_search_writes_a_page_of_the_visitors_own(sites: Sites, tmp_path: Path, refused: Check) -> None:
    with sites() as site:
        name = collected(site)
        about = site.get(f"/api/collections/{name}")
        assert (about["has_slices"], about["searches"], about["reason_against_slices"]) == (False, [], None)
        refused(site.client.get(f"/api/collections/{name}/slices"), 404, "no-slices")
        search = begun(site, name, seed=3)
        now = ended(site, search)
        assert (now["state"], now["dataset"], now["seed"], now["limit"]) == ("done", name, 3, 3), now
        about = site.get(f"/api/collections/{name}")
        assert about["has_slices"]
        assert [each["id"] for each in about["searches"]] == [search]
        assert "Nothing could be searched in 3 rows" in site.client.get(f"/api/collections/{name}/slices").text
        assert not (tmp_path / "home/collections" / name / "slices.html").exists()  # the collection is as it was
    with sites() as site:  # after a restart too
        assert [each["state"] for each in site.get("/api/slices")["runs"]] == ["done"]
        assert site.client.delete(f"/api/slices/{search}").status_code == 204
        refused(site.client.get(f"/api/collections/{name}/slices"), 404, "no-slices")
        assert not list((tmp_path / "home/slices").iterdir())


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Let a search wait after its first row until it is stopped; the next one goes on to its end. Waits for that row."""
    from explainers.collection.slices import slices as searching

    original, is_held, calls = searching.slices, threading.Event(), list[Any]()

    def held_slices(*args: Any, **options: Any) -> Slices:
        calls.append(options)
        if len(calls) == 1:
            options["kept"].parent.mkdir(parents=True, exist_ok=True)
            options["kept"].write_text("[]\n", "utf-8")
            options["progress"](1, 2)
            is_held.set()
            while not options["cancelled"]():
                pass
            raise explainers.Cancelled
        assert options["kept"].read_text("utf-8") == "[]\n"  # what the first one kept
        return original(*args, **options)

    monkeypatch.setattr(searching, "slices", held_slices)
    yield lambda: assert_set(is_held)
    assert len(calls) <= 2


def assert_set(event: threading.Event) -> None:
    assert event.wait(60)


def test_one_that_was_stopped_goes_on_after_a_restart(sites: Sites, refused: Check, held: Callable[[], None]) -> None:
    with sites() as site:
        name = collected(site)
        search = begun(site, name)
        held()
        refused(site.client.post(f"/api/collections/{name}/slices", json={"seed": 1}), 409, "run-going")
        assert site.client.post(f"/api/slices/{search}/stop").status_code == 204
        now = ended(site, search)
        assert (now["state"], now["done"], now["total"]) == ("stopped", 1, 2)
        assert not site.get(f"/api/collections/{name}")["has_slices"]
        refused(site.client.post(f"/api/slices/{search}/stop"), 409, "run-over")
    with sites() as site:
        assert site.get(f"/api/slices/{search}")["state"] == "stopped"
        assert site.client.post(f"/api/slices/{search}/again").status_code == 202
        assert ended(site, search)["state"] == "done"
        assert site.get(f"/api/collections/{name}")["has_slices"]


def test_a_collection_that_is_deleted_takes_its_searches_with_it(sites: Sites, tmp_path: Path, held: Callable[[], None]) -> None:
    with sites() as site:
        name = collected(site)
        search = begun(site, name)
        held()
        assert site.client.delete(f"/api/collections/{name}").status_code == 204
        while any(each["id"] == search for each in site.get("/api/slices")["runs"]):
            pass  # it is removed at the end of its pass
    assert not list((tmp_path / "home/slices").iterdir())
    assert not list((tmp_path / "home/collections").iterdir())


def test_it_is_the_visitors_own_alone(sites: Sites, tmp_path: Path, refused: Check) -> None:
    """A collection of the operator: each visitor has searches of their own, and nobody writes into it."""
    with sites(visitors="apart", allow_runs=True, collections=str(tmp_path / "all")) as site:
        mine = collected(site)
        record = json.loads((tmp_path / "home/collections" / mine / "run.json").read_text("utf-8"))
        facts = {key: record[key] for key in ("weights_digest", "sources", "data_digest", "model", "methods", "prompts", "classes", "how")}
        rows = [made_up_row(index, labels=["zebra"], answer="zebra") for index in range(3)]
        folder = write_collection(tmp_path / "all/shown", rows, data="shown", **facts | {"methods": ["fullgrad_plus:libra", "rollout"]})
        name = next(each["id"] for each in site.get("/api/collections")["collections"] if not each["is_own"])
        search = begun(site, name)
        assert ended(site, search)["state"] == "done"
        assert {path.name for path in folder.iterdir()} == {"rows.parquet", "thumbnails.parquet", "run.json"}
        assert site.client.get(f"/api/collections/{name}/slices").status_code == 200
        site.client.cookies.clear()
        refused(site.client.get(f"/api/collections/{name}/slices"), 404, "no-slices")
        assert site.get("/api/slices")["runs"] == []
        for call in ("", "/events"):
            refused(site.client.get(f"/api/slices/{search}{call}"), 404, "no-run")
        refused(site.client.delete(f"/api/slices/{search}"), 404, "no-run")
        refused(site.client.post(f"/api/collections/{mine}/slices", json={}), 404, "no-such-collection")


@pytest.mark.parametrize(
    ("rows", "facts", "kind", "problem"),
    [
        ([made_up_row(0, labels=[], right=None)], {}, "cannot-search", "slices need labels"),
        ([made_up_row(0)], {"weights_digest": "0" * 64, "model": "/srv/gone"}, "cannot-search", "no model with the weights of “gone”"),
        ([made_up_row(0)], {"sources": None}, "cannot-search", "does not say where its pictures lie"),
        ([made_up_row(0)], {"input_kind": "molecule"}, "cannot-search", "not in molecules"),
        ([made_up_row(0)], {"sources": {"data": "/srv/nowhere", "folder": None, "split": None}}, "cannot-answer", "no file or folder"),
    ],
)
def test_what_cannot_be_searched_says_why(
    sites: Sites, tmp_path: Path, refused: Check, rows: list[Any], facts: dict[str, Any], kind: str, problem: str
) -> None:
    with sites(collections=str(tmp_path / "all")) as site:
        digest = next(each["weights_digest"] for each in site.get("/api/models")["models"] if each["name"] == "scenes-vit")
        usual = {"weights_digest": digest, "sources": {"data": "scenes", "folder": None, "split": None}, "data": "x", "data_digest": "0"}
        write_collection(tmp_path / "all/shown", rows, **usual | facts)
        (entry,) = site.get("/api/collections")["collections"]
        document = refused(site.client.post(f"/api/collections/{entry['id']}/slices", json={}), 422, kind)
        assert problem in document["detail"]
        assert "/srv" not in str(document)
        assert site.get("/api/slices")["runs"] == []


def test_few_are_kept(sites: Sites, refused: Check) -> None:
    with sites() as site:
        name = collected(site)
        for seed in range(8):
            assert ended(site, begun(site, name, seed=seed))["state"] == "done"
        refused(site.client.post(f"/api/collections/{name}/slices", json={"seed": 9}), 429, "too-many-runs")


def test_where_runs_are_not_allowed_nothing_begins(sites: Sites, tmp_path: Path, refused: Check) -> None:
    write_collection(tmp_path / "all/shown", [made_up_row(0)])
    with sites(host="0.0.0.0", collections=str(tmp_path / "all")) as site:
        (entry,) = site.get("/api/collections")["collections"]
        assert "VITRINE_ALLOW_RUNS" in site.get(f"/api/collections/{entry['id']}")["reason_against_slices"]
        refused(site.client.post(f"/api/collections/{entry['id']}/slices", json={}), 403, "runs-not-allowed")
