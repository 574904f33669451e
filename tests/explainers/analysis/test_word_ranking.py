"""Which words are names by their capitals, and words counted without their punctuation."""

from __future__ import annotations

import pytest

from explainers.analysis.first_names import gender_of, is_first_name
from explainers.analysis.word_ranking import names_in, word_totals


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["I saw Hanks ."], {"hanks"}),
        (["Hanks was there ."], set()),  # it may be how the sentence begins
        (["Hanks was there .", "with Hanks"], {"hanks"}),
        (["It ends . Hanks left"], set()),
        (["by Samuel L. Jackson and Mr. Bean"], {"samuel", "jackson", "bean"}),
        (["by Samuel L . Jackson"], {"samuel", "jackson"}),
        (["and I'm sure I’d go , I say"], set()),
        (["with O'Brien , and not-quite Spielberg-like"], {"o'brien", "spielberg-like"}),
        (['she said " Great film "', "verdict : Great"], set()),
        (['the "Matrix" has (Neo)'], {"neo"}),
        (["the Film , a film"], set()),
        (["the Film , a film , Film"], {"film"}),
        (["THE WORST OF HANKS"], set()),
        (["2 HANKS AND 1 CRUZ", "A HANKS"], set()),
        (["the worst of NASA"], {"nasa"}),
        (["a RIDICULOUSLY bad film"], set()),
        (["so SKIP IT , Hanks"], {"hanks"}),
        (["the CIA , the FBI and Mr. T"], {"cia", "fbi"}),
        (["in Köln , Élodie and 東京"], {"köln", "élodie"}),
        (["hanks in lower case"], set()),
        (["emma thompson 's film , like julia 's", "steven in lower case"], {"emma", "julia", "steven"}),  # as SST-2 has them
        (["will hope and grace mark this drew , from georgia"], set()),  # names too, but words first
        (["emma in lower case", "Nobody has Emma ."], {"emma"}),
        (["An emma in a cased text"], set()),
        ([""], set()),
    ],
)
def test_names_begin_with_a_capital_inside_a_sentence(texts: list[str], names: set[str]) -> None:
    assert names_in(text.split() for text in texts) == names


def test_first_names_have_the_gender_of_those_who_bear_them() -> None:
    """Of the census of 1990: Mary 2.629 % of women and .009 % of men, James 3.318 % of men, Leslie about as many of both."""
    assert [gender_of(name) for name in ("mary", "James", "emma's", "hope")] == ["female", "male", "female", "female"]
    assert [gender_of(name) for name in ("leslie", "nasa", "")] == [None, None, None]
    assert is_first_name("emma’s")
    assert not any(map(is_first_name, ("hope", "nasa", "film")))


def test_punctuation_left_on_a_word_makes_no_other_word() -> None:
    totals = word_totals([[("Film.", 1.0), ("...", 5.0), ("film", 2.0)], [("(well-made)", 4.0)]])
    assert [(word.word, word.count, word.total, word.mean) for word in totals] == [("well-made", 1, 4.0, 4.0), ("film", 2, 3.0, 1.5)]
