"""The calls behind the page Collection: what is here, rows by page, what a filter leaves, pictures."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.server.conftest import Check, Site, Sites, png
from tests.support.made_up_collection import made_up_row, text_row, thumbnail, write_collection, wrong

ROWS = [
    made_up_row(0),
    wrong(1, "cat", 0.99),
    made_up_row(2, own_columns={"camera": "North"}),
    made_up_row(3, agreement=-0.5),
    wrong(4, "ant", 0.3, input="bee/../../secret.png"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collections of pictures, whose files are there but for one, and of texts."""
    folder = tmp_path_factory.mktemp("collections")
    for row in ROWS[:3]:
        (folder / "data" / row.input).parent.mkdir(parents=True, exist_ok=True)
        (folder / "data" / row.input).write_bytes(png(row.index))
    (folder / "secret.png").write_bytes(png(9))
    sources = {"data": str(folder / "data"), "folder": None, "split": None}
    write_collection(folder / "all/photos", ROWS, sources=sources)
    write_collection(folder / "all/films", [text_row(0, "a fine film"), text_row(1, "a bad film")])
    return folder / "all"


@pytest.fixture(scope="module")
def here(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Sites(tmp_path_factory.mktemp("home"))(collections=str(folder)) as site:
        yield site


@pytest.fixture
def path(here: Site) -> str:
    """The address of the collection of pictures."""
    listed = {each["title"]: each["id"] for each in here.get("/api/collections")["collections"]}
    return f"/api/collections/{listed['photos']}"


def test_the_list_shows_no_paths(here: Site, folder: Path) -> None:
    answer = here.client.get("/api/collections")
    assert str(folder) not in answer.text
    assert [(each["title"], each["kind"], each["rows"]) for each in answer.json()["collections"]] == [
        ("films", "text", 2),
        ("photos", "image", 5),
    ]


def test_what_a_collection_is_made_of(here: Site, path: str, folder: Path) -> None:
    about = here.get(path)
    assert about["page"] == "/image"
    assert about["reason"] is None
    assert about["methods"] == ["fullgrad_plus:libra", "rollout"]
    assert [title.split()[0] for title in about["method_titles"]] == ["FullGrad+", "Attention"]
    assert {flag["name"]: flag["rows"] for flag in about["flags"]}["wrong"] == 1
    assert about["labels"] == ["ant", "bee", "cat"]  # of two, two and one of these rows
    assert about["own_columns"] == {"camera": ["North"]}
    assert (about["has_labels"], about["has_masks"], about["broken"]) == (True, True, 0)
    assert str(folder.parent) not in str(about)


def test_the_page_on_slices_is_served_once_it_is_there(here: Site, path: str, folder: Path, refused: Check) -> None:
    assert here.get(path)["has_slices"] is False
    refused(here.client.get(f"{path}/slices"), 404, "no-slices")
    page = folder / "photos/slices.html"
    before = [row["index"] for row in here.get(f"{path}/rows")["rows"]]
    page.write_text("<!doctype html><title>Slices</title><body class=a>as it was</body>", "utf-8")
    found = page.with_name("slices.json")
    found.write_text(json.dumps({"slices": [{"rows": [before[-1]]}]}), "utf-8")
    try:
        answer, about = here.client.get(f"{path}/slices"), here.get(path)
        first = here.get(f"{path}/rows")["rows"][0]["index"]
    finally:
        page.unlink()
        found.unlink()
    assert about["has_slices"] is True
    assert about["suspicion"].startswith("Rows of what the search found in common come first; then: most suspicious first")
    assert first == before[-1] != before[0]
    assert answer.status_code == 200
    assert answer.text.startswith("<!doctype html><title>Slices</title><body class=a>")
    assert answer.text.endswith("as it was</body>")
    for name in ("/image", "/collection", "/leaderboard"):  # the navigation of the site
        assert f'href="{name}"' in answer.text
    assert f'href="/collection?c={path.rpartition("/")[2]}"' in answer.text  # and back to its table
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy  # so that no script runs


def test_rows_open_with_the_model_here_that_has_the_same_weights(sites: Sites, tmp_path: Path) -> None:
    """A folder that the operator named."""
    place = tmp_path / "somewhere/model"
    place.mkdir(parents=True)
    with sites(models=(str(place),), collections=str(tmp_path / "all")) as site:
        site.wait_for_models(str(place))
        digest = next(each["weights_digest"] for each in site.get("/api/models")["models"] if each["name"] == str(place))
        write_collection(tmp_path / "all/photos", ROWS, model="model", weights_digest=digest, sources={"data": "x", "folder": None})
        (entry,) = site.get("/api/collections")["collections"]
        about = site.get(f"/api/collections/{entry['id']}")
        assert (about["model"], about["reason"], entry["model"]) == (str(place), None, "model")
        assert site.ask(png(1), wait=True, model=about["model"], methods=["rollout"]).status_code == 200


def test_rows_of_a_model_that_is_not_here_say_so_without_a_path(sites: Sites, tmp_path: Path, refused: Check) -> None:
    place = tmp_path / "somewhere/model"
    place.mkdir(parents=True)
    with sites(models=(str(place),), collections=str(tmp_path / "all")) as site:
        site.wait_for_models(str(place))
        write_collection(tmp_path / "all/photos", ROWS, model=str(place), weights_digest="0" * 64)
        (entry,) = site.get("/api/collections")["collections"]
        about = site.get(f"/api/collections/{entry['id']}")
        assert about["model"] is None
        assert about["reason"].startswith("This server has no model with the weights of “model”")
        assert str(tmp_path) not in str(about)
        assert str(tmp_path) not in str(refused(site.ask(png(1), model="model"), 404, "unknown-model"))


def test_texts_open_on_their_page(here: Site) -> None:
    films = next(each["id"] for each in here.get("/api/collections")["collections"] if each["title"] == "films")
    assert here.get(f"/api/collections/{films}")["page"] == "/text"
    (row,) = here.get(f"/api/collections/{films}/rows?word=fine")["rows"]
    assert row["text"] == "a fine film"


def test_rows_come_by_page(here: Site, path: str) -> None:
    whole = here.get(f"{path}/rows?order=input")
    assert whole["total"] == 5
    pages = [here.get(f"{path}/rows?order=input&offset={offset}&limit=2") for offset in (0, 2, 4)]
    assert [row for page in pages for row in page["rows"]] == whole["rows"]
    assert [row["index"] for row in here.get(f"{path}/rows?flag=wrong&right=false")["rows"]] == [1]
    assert [row["index"] for row in here.get(f"{path}/rows?column=camera%3DNorth")["rows"]] == [2]
    assert here.get(f"{path}/rows?offset=99")["rows"] == []


def test_a_selection_counts_and_lists(here: Site, path: str) -> None:
    assert here.get(f"{path}/selection")["indices"] is None
    selection = here.get(f"{path}/selection?label=bee&answer=cat")
    assert (selection["total"], selection["right"], selection["wrong"], selection["indices"]) == (1, 0, 1, [1])
    assert sum(map(sum, selection["confusion"]["counts"])) == 5  # whatever cell of it was pressed


def test_counts_of_flags_and_of_the_matrix_are_those_of_the_filter(here: Site, path: str) -> None:
    whole = here.get(f"{path}/selection")
    assert (whole["flags"]["wrong"], whole["flags"]["disagree"], sum(map(sum, whole["confusion"]["counts"]))) == (1, 1, 5)
    ants = here.get(f"{path}/selection?label=ant")  # rows 0 and 3
    assert (ants["total"], ants["flags"]["wrong"], ants["flags"]["disagree"]) == (2, 0, 1)
    assert (ants["confusion"]["labels"], ants["confusion"]["counts"]) == (["ant"], [[2]])
    cats = here.get(f"{path}/selection?answer=cat")  # a bee and a cat
    assert sum(map(sum, cats["confusion"]["counts"])) == 2


@pytest.mark.parametrize("space", ["inputs", "maps"])
def test_a_box_of_the_plane_is_a_filter(here: Site, path: str, space: str) -> None:
    points = here.get(f"{path}/points?space={space}")
    assert sorted(points["index"]) == [0, 1, 2, 3, 4]
    assert points["x"] == sorted(points["x"])
    x, y, index = points["x"][1], points["y"][1], points["index"][1]
    box = "&".join(f"box={value}" for value in (x - 0.01, y - 0.01, x + 0.01, y + 0.01))
    assert here.get(f"{path}/selection?space={space}&{box}")["indices"] == [index]


def test_thumbnails(here: Site, path: str) -> None:
    answer = here.client.get(f"{path}/thumbnails/3.jpg")
    assert (answer.content, answer.headers["content-type"]) == (thumbnail(3), "image/jpeg")
    assert "private" in answer.headers["cache-control"]


def test_a_picture_is_sent_as_it_was_given(here: Site, path: str) -> None:
    answer = here.client.get(f"{path}/inputs/1")
    assert answer.content == png(1)
    assert answer.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(answer.content)).size == (60, 40)


@pytest.mark.parametrize(
    ("rest", "status", "kind"),
    [
        ("/inputs/3", 409, "input-gone"),
        ("/inputs/4", 409, "input-gone"),  # its name leads out of the folder
        ("/inputs/99", 404, "no-such-row"),
        ("/thumbnails/99.jpg", 404, "no-such-row"),
        ("/rows?flag=odd", 422, "invalid-request"),
        ("/rows?order=size", 422, "invalid-request"),
        ("/rows?column=x%3D1", 422, "invalid-request"),
        ("/rows?limit=201", 422, "invalid-request"),
        ("/selection?box=1&box=2", 422, "invalid-request"),
        ("/selection?space=moon", 422, "invalid-request"),
        ("/rows?odd=1", 422, "unknown-parameter"),
        ("x", 404, "no-such-collection"),
    ],
)
def test_what_is_refused(here: Site, path: str, folder: Path, refused: Check, rest: str, status: int, kind: str) -> None:
    document = refused(here.client.get(path + rest), status, kind)
    assert str(folder.parent) not in str(document)


def test_without_a_setting_there_is_nothing(site: Site) -> None:
    assert site.get("/api/collections")["collections"] == []


def test_a_row_can_be_explained(here: Site, path: str) -> None:
    """As the page does: the picture of the row, its model and its methods."""
    about: Any = here.get(path)
    answer = here.ask(here.client.get(f"{path}/inputs/1").content, wait=True, model=about["entry"]["model"], methods=["rollout"])
    assert answer.status_code == 200, answer.text
