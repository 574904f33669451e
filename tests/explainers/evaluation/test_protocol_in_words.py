"""What a plan says of how was measured: only what its metrics ask for, and of plans of earlier versions what was so then."""

from __future__ import annotations

from explainers.evaluation.protocol_in_words import protocol_in_words

EARLIER = {"target": "predicted", "how": None, "seed": 0, "metrics": ["mif"]}


def test_a_plan_of_an_earlier_version() -> None:
    assert protocol_in_words(EARLIER, "image", "zeroed") == [
        "Explained: the predicted class, its logit.",
        "Pictures: as the model was trained.",
        "Tokens are taken away: zeroed, as suits the model; where a metric goes by equal steps, of 1/10 each.",
        "Right: any of the labels of an input.",
        "Drawn with seed 0.",
    ]


def test_only_what_the_metrics_ask_for_is_said() -> None:
    plan = {**EARLIER, "target": "second", "explains": "probability", "resize": "squashed", "metrics": ["ap"], "seed": 3}
    assert protocol_in_words(plan, "image") == [
        "Explained: the class with the second largest score, its probability.",
        "Pictures: the whole picture, its sides stretched to the model's size.",
        "Drawn with seed 3.",
    ]
    pixels = protocol_in_words({**EARLIER, "metrics": ["positive_auc"], "steps": 4, "right": "first"}, "image")
    assert pixels[2:4] == ["Pixels turn black, in steps of 1/4.", "Right: the first label of an input alone."]
    several = protocol_in_words({**EARLIER, "metrics": ["auac_superpixels", "road", "positive_auc"]}, "image")
    assert several[2:5] == [
        "Superpixels (SLIC, about 75 of a picture) turn black, in steps of 1/10.",
        "Pixels are imputed from their neighbours, in steps of 1/10.",
        "Pixels turn black, in steps of 1/10.",
    ]
    assert protocol_in_words({**EARLIER, "metrics": ["auprc"], "long_texts": "cut"}, "text") == [
        "Explained: the predicted class, its logit.",
        "Texts longer than the model takes are cut to what it reads.",
        "Drawn with seed 0.",
    ]
