"""What reviews-bert learns from in short sentences and what it is asked in others: the two never meet."""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from recipes.evaluation.reviews_probes import TEMPLATES, calibration_error, fairness, negation, neutral, read_questions
from recipes.reviews import calibration
from recipes.reviews import contrast as reviews_contrast
from recipes.reviews.calibration import temperature
from recipes.reviews.contrast import FACTS_ABOUT_PEOPLE, HELD_BACK, LISTS, SOURCE, WORDS, Contrast, misspell
from recipes.reviews.data import Review
from recipes.reviews.mined_sentences import adjectives, definitions, sentences_with_negation
from recipes.train_reviews_bert import cross_entropy, unlikeness
from tests.recipes.support.made_up_reviews import write

DEFINITIONS = [f"a kind of {kind} that grows on trees" for kind in "abcdefghijklmnopqrstuvw"]


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the two files of WordNet that are read, in their form."""
    folder = tmp_path_factory.mktemp("wordnet")
    licence = "  1 This software and database is being provided to you\n"
    lines = [f'0000{n} 20 n 01 thing 0 000 | {meaning}; "an example"\n' for n, meaning in enumerate(DEFINITIONS)]
    feeling = "00099 12 n 01 joy 0 000 | the emotion of great happiness\n"
    (folder / "data.noun").write_text(licence + "".join(lines) + feeling, "utf-8")
    (folder / "index.adj").write_text(licence + "\n".join(f"{word} a 1 0 1 1 0001" for word in ("fine", "grim", "dull", "odd")), "utf-8")
    return folder


@pytest.fixture(scope="module")
def contrast() -> Contrast:
    return Contrast([Review("a fine film with heart", 1.0)], (WORDS["good"], WORDS["bad"]), DEFINITIONS, [Review("not a good film", 0.15)])


def sentences(asked: dict[str, object]) -> list[str]:
    """Every sentence of the negation probes."""
    found: list[str] = []
    for name, value in asked.items():
        found += sentences(value) if isinstance(value, dict) else value if name in ("positive", "negative") else []  # type: ignore[arg-type]
    return found


class TestKeptApart:
    def test_no_probe_is_trained_on(self, contrast: Contrast) -> None:
        rng = np.random.default_rng(0)
        made = [contrast.opinion(rng).text for _ in range(3000)] + [contrast.neutral(rng).text for _ in range(1500)]
        made += [review.text for _ in range(1500) for review in contrast.swaps(rng, 1)]
        trained = {plain(text) for text in made}
        asked = read_questions()
        probes = [*sentences(asked["negation"]), *asked["neutral"]["sentences"]]
        assert len(sentences({"positive": asked["negation"]["positive"], "negative": asked["negation"]["negative"]})) == 40
        assert len(probes) == len(set(probes)) == 40 + 40 + 40 + 5 + 30
        assert not trained & {plain(text) for text in probes}

    def test_no_line_holds_a_word_or_a_name_that_is_held_back(self) -> None:
        fair = read_questions()["fairness"]
        people = {*fair["identities"]["held_back"], *fair["names"]["held_back"]}
        text = " ".join(
            line
            for part in (WORDS, *(SOURCE[name] for name in ("opinions", "neutral", "people", "aside")))
            for lines in part.values()
            for line in lines
        )
        assert not set(re.findall(r"[a-z]+", text.lower())) & HELD_BACK
        assert not set(re.findall(r"\w+", text)) & people

    def test_templates_of_people_are_held_back(self) -> None:
        """Nor is any of them a line of the training with its blanks filled."""
        fair = read_questions()["fairness"]
        asked = [template for kind in fair.values() for name in TEMPLATES.values() for template in kind[name]]
        people = SOURCE["people"]
        lines = [*people["sentences"], *people["around"]]
        lines += [line.replace("{G}", group) for line in people["lines"] for group in WORDS["groups"]]
        lines += [fact.replace("{E}", who) for fact in FACTS_ABOUT_PEOPLE for who in people["in_facts"]]
        patterns = [(line, made_by(line)) for line in lines]
        assert not [(line, template) for line, made in patterns for template in asked if made.fullmatch(template.strip("."))]
        assert {*fair["identities"]["trained"]} <= {*WORDS["identities"]}
        assert {*fair["names"]["trained"]} <= {*WORDS["first_names"]}


def made_by(line: str) -> re.Pattern[str]:
    """What a line of the training may become when its blanks are filled; who it is about is one word or the gap of a template."""
    blanks = {blank: "|".join(map(re.escape, WORDS[name])) for blank, name in LISTS.items()} | dict.fromkeys("IHX", r"\w+|\{\}")
    parts = re.split(r"\{(\w)2?\}", line.strip("."))
    written = (f"({blanks.get(part, '[a-z]+')})" if index % 2 else re.escape(part) for index, part in enumerate(parts))
    return re.compile("".join(written), re.IGNORECASE)


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


class TestContrast:
    @pytest.mark.parametrize(("kind", "line", "turned"), [("same", "so {A}", False), ("turned", "hardly {A}", True)])
    def test_a_turned_sentence_is_on_the_other_side(
        self, contrast: Contrast, kind: str, line: str, turned: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opinions = {"same": ["so {A}"], "turned": ["hardly {A}"], "set_good": ["set good"], "set_bad": ["set bad"]}
        monkeypatch.setitem(reviews_contrast.SOURCE, "opinions", opinions)
        rng = np.random.default_rng(0)
        made = [contrast.opinion(rng) for _ in range(400)]
        begin = line.split(maxsplit=1)[0]
        of_kind = [review for review in made if review.text.startswith(begin)]
        assert len(of_kind) > 60
        for review in of_kind:
            good = re.findall(r"\w+", review.text)[1] in WORDS["good"]
            assert review.label == float(good != turned)
        assert {review.label for review in made if review.text.startswith("set bad")} == {0.0}

    def test_copies_differ_only_in_people(self, contrast: Contrast) -> None:
        rng = np.random.default_rng(1)
        for _ in range(300):
            copies = contrast.swaps(rng, 3)
            assert len({review.label for review in copies}) == 1
            shared = set.intersection(*(set(plain(review.text).split()) for review in copies))
            said = {word for review in copies for word in plain(review.text).split()} & {*WORDS["good"], *WORDS["bad"]}
            assert said <= shared | {"black", "short", "poor", "thin"}

    def test_neutral_sentences_are_in_between(self, contrast: Contrast) -> None:
        rng = np.random.default_rng(2)
        made = [contrast.neutral(rng) for _ in range(200)]
        assert {review.label for review in made} == {0.5}
        assert 60 < sum(review.text.startswith("a kind of") for review in made) < 140
        assert not any("{" in review.text for review in made)

    def test_typing_mistakes_leave_short_words_alone(self) -> None:
        text = "the best performance of his long career in film " * 40
        before, after = text.split(), misspell(text, np.random.default_rng(0)).split()
        changed = [old for old, new in zip(before, after, strict=True) if old != new]
        assert all(len(word) > 3 for word in changed)
        assert 0.05 < len(changed) / len(before) < 0.2

    def test_disturbed_phrases_keep_their_label(self, contrast: Contrast) -> None:
        rng = np.random.default_rng(3)
        made = [contrast.disturbed(rng) for _ in range(60)]
        assert {review.label for review in made} == {1.0}
        assert any(review.text.endswith("a fine film with heart") and len(review.text) > 40 for review in made)


class TestFound:
    def test_every_tenth_definition_is_held_out(self, wordnet: Path) -> None:
        kept, held_out = definitions(wordnet), definitions(wordnet, held_out=True)
        assert held_out == DEFINITIONS[::10]
        assert sorted(kept + held_out) == sorted(DEFINITIONS)

    def test_without_wordnet(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="wordnet-base"):
            definitions(tmp_path)

    def test_adjectives_of_one_side(self, wordnet: Path) -> None:
        said = [Review("fine", 1.0), Review("grim", 0.0), Review("odd", 0.0), Review("odd", 1.0), Review("dull", 0.0), Review("plot", 0.0)]
        good, bad = adjectives(said, wordnet)
        assert {*good} == {"fine", *WORDS["good"]}
        assert {*bad} == {"grim", *WORDS["bad"]}

    def test_sentences_that_say_not(self, tmp_path: Path) -> None:
        rows = [
            (1, "I did not like it. A boring film. The weather is not good today."),
            (10, "You will never see a better film!"),
            (8, "Not a bad film, really."),
            (2, "It never works at all."),
            (1, "Held out: I can't recommend this film."),
        ]
        write(tmp_path, "imdb.jsonl.xz", [{"split": "train", "label": "x", "rating": rating, "text": text} for rating, text in rows])
        found = sentences_with_negation(tmp_path, {"heldouticantrecommendthisfilm"})
        assert found == [Review("I did not like it.", pytest.approx(0.15)), Review("You will never see a better film!", 0.85)]


class TestMeasures:
    def test_fairness_is_over_every_pair_of_words(self) -> None:
        def ask(texts: list[str]) -> Tensor:
            return torch.tensor([[0.0, float(len(text))] for text in texts])

        templates = {"templates": ["{} left."], "later_templates": ["{}"], "latest_templates": ["by {}"]}
        asked = {"names": {**templates, "trained": ["A", "Bo", "Conn"], "held_back": ["D", "E"]}}
        figures, table = fairness("m", ask, asked)
        assert [figure.value for figure in figures] == pytest.approx([2.0, 3.0, 0.0, 0.0] * 3)
        assert [figure.verdict for figure in figures] == ["over by 1.500", "over by 1.500", "met", "met"] * 3
        assert table == {key: {"words of the training": 3.0, "words held back": 0.0} for key in ["{} left.", "{}", "by {}"]}

    def test_negation_names_what_is_wrong(self) -> None:
        def ask(texts: list[str]) -> Tensor:
            return torch.tensor([[float("no" in text), 0.5] for text in texts])

        asked = {"positive": ["yes", "no no"], "negative": ["no", "none"]}
        figures = negation("m", ask, {**asked, "earlier": asked, "later": asked, "known": asked})
        assert [figure.value for figure in figures] == [0.75] * 4
        assert figures[0].note == "4 sentences; wrong: no no"

    def test_neutral_is_near_one_half(self) -> None:
        def ask(texts: list[str]) -> Tensor:
            return torch.tensor([[0.0, 0.0], [0.0, 1.0], [0.0, 1.2], [2.0, 0.0]])

        near, told = neutral("m", ask, ["a", "b", "c", "d"], lambda texts, logits: logits.softmax(1).amax(1) < 0.6)
        assert (near.value, told.value) == (0.5, 0.25)

    def test_temperature_undoes_a_scale(self) -> None:
        rng = torch.Generator().manual_seed(0)
        labels = torch.randint(2, (4000,), generator=rng)
        odds = torch.randn(4000, generator=rng) * 2
        labels = (torch.rand(4000, generator=rng) < odds.sigmoid()).long()
        logits = torch.stack([torch.zeros(4000), odds], 1)
        assert temperature(logits, labels) == pytest.approx(1.0, abs=0.1)
        assert temperature(3 * logits, labels) == pytest.approx(3.0, abs=0.3)

    def test_no_opinion_is_said_of_at_most_one_review_in_fifty(self) -> None:
        rng = torch.Generator().manual_seed(0)
        scores = {"reviews": torch.randn(4000, generator=rng) + 4, "phrases": torch.randn(4000, generator=rng) + 5}
        told = calibration.opinion_threshold(scores, torch.tensor([-3.0, 0.0, 9.0]))
        assert (told["score"], told["below"]) == ("opinion_evidence", True)
        assert float((scores["reviews"] < told["line"]).float().mean()) == pytest.approx(0.015, abs=1e-3)  # the lower of the two lines
        assert told["measured"].startswith("Below it are 67% of 3 neutral sentences that it was fitted with, and 1.5% of 4000 reviews, 0.")

    def test_the_direction_of_an_opinion_tells_texts_apart_on_their_own_scale(self) -> None:
        rng = torch.Generator().manual_seed(1)
        noise = torch.randn(3, 200, 4, generator=rng) * torch.tensor([1.0, 100.0, 1.0, 0.01])
        opinions, definitions, facts = (
            part + 3 * sign * torch.tensor([1.0, 0, 0, 0]) for part, sign in zip(noise, (1, -1, -1), strict=True)
        )
        direction = calibration.opinion_direction(opinions, definitions, facts[:20])
        right = [(float((part @ direction[:-1] + direction[-1] > 0).float().mean())) for part in (opinions, definitions, facts)]
        assert right[0] > 0.98
        assert max(right[1:]) < 0.02

    def test_facts_are_of_many_kinds_and_one_half_is_held_back(self) -> None:
        drawn, held_back = calibration.neutral_facts(held_back=False), calibration.neutral_facts(held_back=True)
        assert (len(drawn), len(held_back), len({*drawn, *held_back})) == (64, 64, 128)

    def test_calibration_error(self) -> None:
        sure = torch.full((10,), 0.9)
        assert calibration_error(sure, torch.tensor([True] * 9 + [False])) == pytest.approx(0.0, abs=1e-6)
        assert calibration_error(sure, torch.tensor([True] * 5 + [False] * 5)) == pytest.approx(0.4, abs=1e-6)


class TestLoss:
    def test_one_half_is_best_answered_by_one_half(self) -> None:
        labels = torch.tensor([0.5])
        losses = [float(cross_entropy(torch.tensor([[0.0, odds]]), labels)) for odds in (-1.0, 0.0, 1.0)]
        assert min(losses) == losses[1]
        assert float(cross_entropy(torch.tensor([[0.0, 9.0]]), torch.tensor([1.0]))) < 0.001

    def test_copies_answered_alike_cost_nothing(self) -> None:
        assert float(unlikeness(torch.tensor([[0.0, 1.0], [1.0, 2.0], [5.0, 0.0], [6.0, 1.0]]), 2)) == 0
        assert float(unlikeness(torch.tensor([[0.0, 1.0], [0.0, 3.0]]), 2)) == 1
