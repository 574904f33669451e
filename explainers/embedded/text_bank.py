"""A bank of texts to say in words what a head looks for: made by rules from the words that were written down for Vitrine by field
(``common_words.toml``) and from the names of ImageNet's classes (``labels/imagenet.json``). No list of others is in it.
"""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib import resources

#: For each field of words the templates that make texts of a word.
FIELD_TEMPLATES: dict[str, tuple[str, ...]] = {
    "scenes": ("a photo of a {}", "a picture taken in a {}"),
    "pictures": ("a {}",),
    "people": ("a photo of a {}",),
    "doing": ("somebody {}", "an animal {}"),
    "qualities": ("something {}",),
    "materials": ("something made of {}", "a surface of {}"),
    "animals": ("a photo of a {}",),
    "plants": ("a photo of a {}",),
    "food": ("a photo of {}",),
    "things": ("a photo of a {}",),
    "ideas": ("a picture about {}",),
}
__all__ = ["texts"]

COLOURS = ["red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "grey", "golden"]
COLOUR_TEMPLATES = ("a {} background", "something {}", "a {} thing", "a {} animal", "a picture in {}")
NUMBERS = ["one", "two", "three", "four", "five", "six", "ten", "many", "no"]
NUMBER_TEMPLATES = ("{} things", "{} animals", "{} people")
PLACES = ("on the left", "on the right", "at the top", "at the bottom", "in the middle", "in the corner", "far away", "close by")
PLACE_TEMPLATES = ("something {}", "a thing {} of the picture", "nothing {}")
PATTERNS = ("striped", "spotted", "checkered", "plain", "noisy", "smooth", "crowded", "empty", "blurry", "sharp", "bright", "dark")
PATTERN_TEMPLATES = ("a {} background", "a {} picture", "a {} surface")
CLASS_TEMPLATE = "a photo of a {}"


@cache
def texts() -> tuple[str, ...]:
    """Return the texts of the bank, each once."""
    data = resources.files("explainers.embedded")
    fields = tomllib.loads(data.joinpath("common_words.toml").read_text("utf-8"))
    made = [
        _fill(rule, word.replace("-", " ")) for field, rules in FIELD_TEMPLATES.items() for word in fields[field].split() for rule in rules
    ]
    for rules, words in (
        (COLOUR_TEMPLATES, COLOURS),
        (NUMBER_TEMPLATES, NUMBERS),
        (PLACE_TEMPLATES, PLACES),
        (PATTERN_TEMPLATES, PATTERNS),
    ):
        made += [_fill(rule, word) for word in words for rule in rules]
    classes = json.loads(data.joinpath("labels", "imagenet.json").read_text("utf-8"))
    made += [_fill(CLASS_TEMPLATE, name) for row in classes for name in (row["label"], *row["groups"])]
    return tuple(dict.fromkeys(made))


def _fill(rule: str, word: str) -> str:
    """Put ``word`` into the slot {} of the template ``rule``, with "a" before it changed to "an" before a vowel; return the text."""
    return rule.replace("a {}", "an {}" if word[0].lower() in "aeiou" else "a {}").format(word)
