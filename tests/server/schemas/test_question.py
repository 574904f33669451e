"""Questions as they are kept, and what is wrong with the fields of a form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from vitrine_server.schemas.question import ExplainOptions, Question, QuestionFields, QuestionForm, question_of

#: As version 0.1 wrote it.
OLD = {
    "model": "scenes-vit",
    "text": None,
    "text_pair": None,
    "side": None,
    "targets": ["zebra", "any:pet"],
    "prompts": [],
    "against": None,
    "read": "logit",
    "methods": None,
    "note": "Explained from a copy.",
    "crop": [1, 2, 30, 40],
    "long_texts": "windows",
    "precision": "double",
    "order": ["rollout"],
    "window": [40.0, 400.5],
}


def test_a_question_of_an_earlier_version_is_read() -> None:
    question = question_of(json.dumps(OLD), b"a picture")
    assert (question.image, question.note) == (b"a picture", "Explained from a copy.")
    assert (question.targets, question.prompts, question.methods, question.order) == (("zebra", "any:pet"), (), (), ("rollout",))
    assert (question.crop, question.window) == ((1, 2, 30, 40), (40.0, 400.5))
    assert question.unusual == {"precision": "double"}


def test_what_is_kept_is_read_again_without_its_image() -> None:
    question = Question(model="clip", image=b"\xff\x00", prompts=("a zebra",), side="text", methods=("rollout",), crop=(0, 0, 9, 9))
    kept = question.to_json()
    assert "image" not in json.loads(kept)
    assert question_of(kept, b"\xff\x00") == question


def test_names_are_distinct_and_blanks_say_nothing() -> None:
    sent = {"model": " clip ", "target": (" a", "", "a ", "b"), "against": " ", "read": "", "long_texts": " ", "crop": " ", "window": " "}
    form = QuestionForm.model_validate(sent)
    assert (form.model, form.targets, form.against, form.read, form.long_texts) == ("clip", ("a", "b"), None, "logit", "windows")
    assert (form.crop, form.window) == (None, None)
    assert {"crop", "window"} <= form.model_fields_set  # sent blank: the model's own part of a picture that was cropped before
    assert not {"against", "read", "long_texts"} & form.model_fields_set


@pytest.mark.parametrize(
    ("sent", "slug"),
    [
        ({}, "no-model"),
        ({"text": " "}, "empty-text"),
        ({"text_pair": ""}, "empty-text"),
        ({"crop": "1,2,3"}, "wrong-crop"),
        ({"window": "1,-2"}, "wrong-window"),
        ({"side": "left"}, "unknown-side"),
        ({"read": "odds"}, "unknown-read"),
        ({"long_texts": "shorten"}, "unknown-way"),
    ],
)
def test_a_check_says_what_to_send(sent: dict[str, Any], slug: str) -> None:
    with pytest.raises(ValidationError) as caught:
        QuestionForm.model_validate({"model": "m", **sent} if sent else {})
    (fault,) = caught.value.errors()
    assert fault["type"] == slug
    assert fault["ctx"]["detail"] == fault["msg"]
    assert fault["ctx"]["send"].startswith(("Send", "Leave"))


def test_every_field_is_described() -> None:
    for name, field in {**QuestionForm.model_fields, **QuestionFields.model_fields, **ExplainOptions.model_fields}.items():
        assert field.description, name
