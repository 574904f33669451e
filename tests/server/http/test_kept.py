"""Large answers are made once, packed once, and not sent again to a browser that has them."""

from __future__ import annotations

import gc
import gzip
import json
import re
import shutil
import tracemalloc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.requests import Request

from tests.server.conftest import Site, Sites
from tests.support.made_up_run import write_run
from vitrine_server import registries, run_reports
from vitrine_server.api import tables
from vitrine_server.http import kept
from vitrine_server.http.kept import ENTRY_BYTES, MAX_KEPT_ENTRIES, KeptAnswers
from vitrine_server.run_reports import read_run_reports

ADDRESSES = (
    "/api/methods",
    "/api/methods?model=scenes-vit",
    "/api/methods?spec=rollout%3Fstart_layer%3D1",
    "/api/leaderboard",
    "/api/leaderboard/table?metric=mif",
    "/api/rules",
    "/api/samples",
    "/api/openapi.json",
    "/api/models",
)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Sites(tmp_path_factory.mktemp("kept"))() as site:
        yield site


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_browser_that_has_it_is_sent_nothing(known: Site, address: str) -> None:
    first = known.client.get(address)
    assert first.headers["content-encoding"] == "gzip"
    assert first.headers["cache-control"] == "private, no-cache"  # a browser keeps it, and asks before it shows it
    again = known.client.get(address, headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    plain = known.client.get(address, headers={"Accept-Encoding": "identity"})
    assert ("content-encoding" in plain.headers, plain.json()) == (False, first.json())
    assert plain.headers["etag"] != first.headers["etag"]  # they are other bytes
    assert all("Accept-Encoding" in answer.headers["vary"] for answer in (first, plain))
    assert known.client.get(address, headers={"If-None-Match": '"another"'}).status_code == 200


def test_many_who_ask_at_once_are_sent_what_was_made_once(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []
    monkeypatch.setattr(kept, "to_json", lambda document: encoded.append(document) or json.dumps(document).encode())
    made: list[Any] = []
    of_all = registries.methods
    monkeypatch.setattr(registries, "methods", lambda model: made.append(model) or of_all(model))
    with sites(loaded=False) as site, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: site.client.get("/api/methods").json(), range(32)))
    assert all(answer == answers[0] for answer in answers)
    assert (len(encoded), made) == (1, [None])


def test_what_changed_is_another_answer(sites: Sites, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs" / "mine", "mine")
    with sites(loaded=False, runs=(str(tmp_path / "runs"),)) as site:
        addresses = ("/api/leaderboard", "/api/leaderboard/table?metric=mif")
        before = [site.client.get(address) for address in addresses]
        report = json.loads((folder / "report.json").read_text("utf-8"))
        report["plan"]["model"] = "renamed"
        (folder / "report.json").write_text(json.dumps(report), "utf-8")
        for address, first in zip(addresses, before, strict=True):
            now = site.client.get(address, headers={"If-None-Match": first.headers["etag"]})
            assert now.status_code == 200
            assert ("renamed" in now.text, "renamed" in first.text) == (True, False)


def test_a_model_that_is_loaded_again_is_described_again(site: Site) -> None:
    first = site.client.get("/api/methods?model=scenes-vit")
    entry = site.client.app.state.services.registry.find("scenes-vit")  # type: ignore[attr-defined]
    entry.facts = entry.facts.__class__(**{**vars(entry.facts), "methods": entry.facts.methods[:1]})
    assert len(site.client.get("/api/methods?model=scenes-vit").json()["methods"]) == 1 < len(first.json()["methods"])


def request(**headers: str) -> Request:
    return Request({"type": "http", "headers": [(name.encode(), value.encode()) for name, value in headers.items()]})


def test_what_nobody_asked_for_longest_leaves() -> None:
    answers, made = KeptAnswers(max_bytes=2 * ENTRY_BYTES + 250), list[str]()

    def ask(name: str) -> None:
        def make() -> str:
            made.append(name)
            return name

        answers.value(name, make, lambda _: 100)

    for name in ("one", "two", "one", "three", "one", "two"):
        ask(name)
    assert made == ["one", "two", "three", "two"]


def test_what_cannot_be_made_is_tried_again() -> None:
    answers = KeptAnswers()

    def fail() -> Any:
        raise ValueError("not now")

    for _ in range(2):
        with pytest.raises(ValueError, match="not now"):
            anyio.run(answers.answer, request(), "key", fail)
    packed = anyio.run(answers.answer, request(**{"accept-encoding": "gzip"}), "key", lambda: {"a": 1})
    assert json.loads(gzip.decompress(bytes(packed.body))) == {"a": 1}


def test_the_table_is_made_once_for_all_its_parts(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    make = tables.table_over_runs
    monkeypatch.setattr(tables, "table_over_runs", lambda *arguments: made.append(arguments) or make(*arguments))
    with sites(loaded=False) as site:
        address = "/api/leaderboard/table?metric=srg"
        whole = site.get(address)
        count = whole["row_count"]
        assert count == len(whole["rows"]) > 4
        parts = [site.get(f"{address}&limit=3&offset={offset}") for offset in range(0, count, 3)]
        assert [row for part in parts for row in part["rows"]] == whole["rows"]
        assert all({**part, "rows": []} == {**whole, "rows": []} for part in parts)
        assert site.get(f"{address}&limit=3&offset={count}")["rows"] == []
        assert site.client.get(f"{address}&limit=0").status_code == 422
    assert len(made) == 1


def test_neither_the_number_nor_the_keys_of_what_is_kept_grow() -> None:
    answers = KeptAnswers()
    for number in range(3 * MAX_KEPT_ENTRIES):
        answers.value(("a" * 100_000, number), lambda: b"", len)
    count, size = answers.size
    assert (count, size) == (MAX_KEPT_ENTRIES, MAX_KEPT_ENTRIES * ENTRY_BYTES)
    assert max(map(len, answers._kept)) < 100


def test_an_entry_takes_no_more_than_is_counted() -> None:
    answers = KeptAnswers(max_entries=2000)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1000):
            answers.value(("a" * 10_000, number), bytes, len)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 1000 < ENTRY_BYTES


def test_what_was_made_of_a_file_goes_with_it() -> None:
    answers, made = KeptAnswers(), list[int]()

    def ask(*versions: str) -> None:
        answers.value("table", lambda: made.append(1) or b"x" * 1000, len, versions=versions)  # type: ignore[func-returns-value]

    answers.keep_versions(["a 1", "b 1"])
    for versions in (("a 1", "b 1"), ("b 1",), ("a 1", "b 1")):
        ask(*versions)
    assert (len(made), answers.size) == (2, (2, 2 * (ENTRY_BYTES + 1000)))
    answers.keep_versions(["b 1"])
    assert answers.size == (1, ENTRY_BYTES + 1000)
    ask("b 1")
    assert len(made) == 2
    ask("a 1")  # asked for while it went
    assert answers.size == (1, ENTRY_BYTES + 1000)


def test_what_was_made_of_another_object_takes_no_room() -> None:
    class Facts:
        """What a model says of itself."""

    answers = KeptAnswers()
    for _ in range(10):
        facts = Facts()
        kept = weakref.ref(facts)
        assert [answers.value("facts", lambda facts=facts: id(facts), lambda _: 10, [facts]) for _ in range(2)] == [id(facts)] * 2  # type: ignore[misc]
    assert answers.size == (1, ENTRY_BYTES + 10)
    del facts
    gc.collect()
    assert kept() is None


def test_odd_questions_for_the_table_do_not_fill_the_memory(sites: Sites) -> None:
    with sites(loaded=False) as site:
        answers: KeptAnswers = site.client.app.state.services.kept  # type: ignore[attr-defined]
        address = "/api/leaderboard/table?metric=srg"
        count = site.get(address)["row_count"]
        kept_at_first = answers.size
        for offset, limit in ((0, count), (0, count + 1), (0, 1_000_000)):
            site.get(f"{address}&offset={offset}&limit={limit}")
        assert answers.size == kept_at_first  # they are the whole table
        beyond = [site.get(f"{address}&offset={count + more}&limit={more + 1}")["rows"] for more in range(5)]
        assert beyond == [[]] * 5
        assert answers.size[0] == kept_at_first[0] + 1
        site.get(f"{address}&{'&'.join(['metric=srg'] * 50)}")
        assert answers.size[0] == kept_at_first[0] + 1
        entries = answers.size
        assert site.client.get(f"{address}&metric=nothing").status_code == 404
        assert site.client.get(f"{address}&{'&'.join(['metric=srg'] * 101)}").status_code == 422
        assert answers.size == entries


def test_the_table_of_a_run_that_is_deleted_goes_at_once(sites: Sites, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs" / "mine", "mine")
    with sites(loaded=False, runs=(str(tmp_path / "runs"),)) as site:
        answers: KeptAnswers = site.client.app.state.services.kept  # type: ignore[attr-defined]
        address = "/api/leaderboard/table?metric=mif"
        site.get(address)
        count, size = answers.size
        assert count == 2
        shutil.rmtree(folder)
        read_run_reports([str(tmp_path / "runs")])
        site.client.get("/api/leaderboard/choices")
        assert answers.size[0] == 0
        assert size > 0
    assert not any(folder in path.parents for path in run_reports._REPORTS._read)


def test_more_runs_than_any_list_of_a_size_holds_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "0", "mine")
    for number in range(1, 300):
        shutil.copytree(tmp_path / "0", tmp_path / str(number))
    read: list[Any] = []
    parse = run_reports.decode_json
    monkeypatch.setattr(run_reports, "decode_json", lambda data, mend: read.append(1) or parse(data, mend=mend))
    first, _ = read_run_reports([str(tmp_path)])
    again, _ = read_run_reports([str(tmp_path)])
    assert all(one.report is other.report for one, other in zip(first, again, strict=True))
    assert len(read) <= len(first)
    assert len({run.version for run in first}) == len(first) >= 300


@pytest.mark.parametrize(
    ("said", "is_packed"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("br, gzip;q=0.5", True),
        ("*", True),
        ("identity;q=0, *;q=0.1", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip; Q=0.000", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("identity", False),
        ("identity, gzip;q=0", False),
        ("br", False),
        ("gzipped", False),
        ("gzip;q=nothing", False),
        ("", False),
    ],
)
def test_the_encoding_is_one_that_is_taken(known: Site, said: str, is_packed: bool) -> None:
    """Of what is kept, of what is packed each time, and of the files of the pages."""
    style = re.search(r"/static/[0-9a-f]{16}/[\w/-]+\.css", known.client.get("/").text)
    assert style is not None
    undated = re.sub("[0-9a-f]{16}/", "", style[0])
    for address in ("/api/methods", "/api/openapi.json", "/api/models/scenes-vit", "/", style[0], undated):
        answer = known.client.get(address, headers={"Accept-Encoding": said})
        assert answer.status_code == 200
        assert (answer.headers.get("content-encoding") == "gzip") == is_packed, address


def test_models_that_changed_are_sent_again(site: Site) -> None:
    first = site.client.get("/api/models")
    tag = {"If-None-Match": first.headers["etag"]}
    assert site.client.get("/api/models", headers=tag).status_code == 304
    entry = site.client.app.state.services.registry.find("scenes-vit")  # type: ignore[attr-defined]
    entry.title = "Another"
    assert site.client.get("/api/models", headers=tag).status_code == 200
