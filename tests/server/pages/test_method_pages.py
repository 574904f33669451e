"""The pages of the methods, made from the registry, and the formulas on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from explainers import METHODS
from explainers.methods.about import SYMBOLS, About
from tests.server.conftest import Check, Site, Sites
from tests.support.made_up_run import write_run
from vitrine_server.cli import main
from vitrine_server.pages.method_pages import mathml, symbols

#: What is said of each method, where something is.
ABOUT: dict[str, About] = {name: method.about for name, method in METHODS.items() if method.about is not None}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Sites(Path(tmp_path_factory.mktemp("home")))(loaded=False) as one:
        yield one


@pytest.fixture(scope="module")
def listed(site: Site) -> dict[str, list[dict[str, Any]]]:
    """What the list of methods says of the pairs of each."""
    return {method["name"]: method["pairs"] for method in site.get("/api/methods")["methods"]}


Pages = Callable[[str], str]


@pytest.fixture(scope="module")
def page_of(site: Site) -> Pages:
    """The page of a method, which is asked for once."""

    @cache
    def page(name: str) -> str:
        answer = site.client.get(f"/methods/{name}")
        assert answer.status_code == 200
        return str(answer.text)

    return page


def test_every_method_has_a_formula_and_words() -> None:
    assert set(METHODS) == set(ABOUT)
    for name, one in ABOUT.items():
        assert one.formula, name
        for text in (one.words, one.trust, one.fails):
            assert re.search(r"[.?!)]$", text), (name, text)
            assert len(text.split()) >= 5, (name, text)
    used = set().union(*(symbols(line) for one in ABOUT.values() for line in one.formula))
    assert set(SYMBOLS) <= used


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_the_page_of_a_method(page_of: Pages, listed: dict[str, list[dict[str, Any]]], name: str) -> None:
    method, told = METHODS[name], ABOUT[name]
    source = page_of(name)
    page = unescape(source)
    assert f"<h1>{method.title}</h1>" in page
    assert f'data-readout="{name}"' in page
    for text in (told.words, told.trust, method.description, method.passes):
        assert text in page
    assert page.count('display="block"') == len(told.formula)
    for formula in re.findall(r"<math.*?</math>", source):
        ElementTree.fromstring(formula)
    for pair in listed[name]:
        assert (f"<code>{pair['spec']}</code>" in page) == (pair["reason"] is None)
    for option, declared in method.options.items():
        assert f"<code>{option}" in page
        assert declared.help in page
    for paper in re.findall(r"arXiv (\d{4}\.\d{5}|\d{4}\.\d{4})", method.source.paper + told.fails):
        assert f'href="https://arxiv.org/abs/{paper}"' in page


def test_a_method_is_told_with_what_was_measured_of_it(sites: Sites, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "mine", "reviews-bert")
    with sites(loaded=False, runs=(str(tmp_path / "runs"),)) as site:
        page = unescape(site.client.get("/methods/rollout").text)
        rows = [re.sub(r"<[^>]+>", " ", row).split() for row in re.findall(r"<tr><td>.*?</tr>", page) if "run=mine" in row]
        assert [" ".join(row) for row in rows] == [
            "rollout reviews-bert, 7 inputs of Scenes MIF accuracy 40.0 % (38.0 to 43.0) 2 of 2",
            "rollout reviews-bert, 7 inputs of Scenes Segmentation AP 90.0 % (88.0 to 93.0) 1 of 2",
        ]
        assert 'href="/leaderboard/figures?run=mine&sort=ap"' in page
        assert "60 inputs of Scenes" in page  # what ships
        nothing = unescape(site.client.get("/methods/alti").text)
        whole = unescape(site.client.get("/methods/fullgrad_plus").text)
    assert 'id="figures"' not in nothing
    assert re.search(r'id="verdicts">\s*<dt><code>rollout</code></dt>\s*<dd>in the [^<]*scenes-vit', page)
    assert "has measured it" in nothing
    # the ablations measure it on the same scenes once more; those with black patches are another setting
    assert "run=scenes-vit-on-scenes&" in whole
    assert "run=scenes-vit-ablations-black&" in whole
    for row in re.findall(r"<tr><td>.*?</tr>", whole):
        assert "run=scenes-vit-ablations&" not in row or "libra-" in row


def test_a_page_that_is_not_there(site: Site, refused: Check) -> None:
    assert "Did you mean rollout" in refused(site.client.get("/methods/roll-out"), 404, "no-such-method")["send"]


def test_limits_of_a_sum_stand_under_and_over_it_inside_brackets_too() -> None:
    root = ElementTree.fromstring(mathml(r"\left(\frac{1}{H} \sum_h \prod_{l}^{2} a\right)", "inline"))
    assert root.get("display") == "inline"
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert {"mfrac", "munder", "munderover"} <= set(names)
    assert "msub" not in names


@pytest.mark.parametrize("line", [line for one in ABOUT.values() for line in one.formula])
def test_every_formula_is_understood(line: str) -> None:
    """What is not, latex2mathml leaves as it stands."""
    text = "".join(ElementTree.fromstring(mathml(line)).itertext())
    assert not set(text) & set("\\{}_^"), text
    assert line.count("{") == line.count("}")


def test_symbols_of_a_formula() -> None:
    assert symbols(r"s_j = \bar{A}^L \text{ of }") == {"s", "_", "j", "=", r"\bar{A}", "^", "L"}


@pytest.mark.slow
def test_page_list_and_plates_promise_the_same(page_of: Pages, listed: dict[str, list[dict[str, Any]]]) -> None:
    assert list(listed) == list(METHODS)
    for name, method in METHODS.items():
        page = unescape(page_of(name))
        cells = re.findall(r'<td class="sum">(.*?)</td><td><code>(.*?)</code>', page)
        assert {spec: total for total, spec in cells} == {
            pair["spec"]: pair["adds_up_to"] or "no promise" for pair in listed[name] if pair["rule"] in method.rules
        }
        if method.promise is None:
            assert "no promise to add up to anything" in page
        else:
            assert all(
                f" with {option}={value}" in page for option, value in {**method.promise.only_with, **method.promise.not_with}.items()
            )
    promised = [pair["spec"] for pairs in listed.values() for pair in pairs if pair["adds_up_to"]]
    assert promised == ["decompx", "decompx:libra", "input_x_gradient:libra", "fullgrad:libra", "integrated_gradients"]


def test_every_list_counts_the_same(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    answer = site.get("/api/methods")
    counts = answer["counts"]
    pairs = [pair for method in answer["methods"] for pair in method["pairs"] if pair["reason"] is None]
    assert counts["methods"] == len(pairs) == counts["listed"] + counts["parts"]
    assert counts["listed"] == len(answer["variants"])
    main(["methods"])
    assert f"{counts['readouts']} methods, {counts['methods']} with their rules" in capsys.readouterr().out
