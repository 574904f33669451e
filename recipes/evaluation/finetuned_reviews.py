"""``reviews``, an encoder fine-tuned on ERASER's movies: how much of its validation and test reviews it gets right."""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from explainers.errors import ExplainerError
from recipes.evaluation import Figure, Report, Setting
from recipes.train_reviews import measure_reviews, read_reviews

SPLITS = {"val": "validation", "test": "test"}  # the weights come from the epoch that did best on the first


def measure(name: str, setting: Setting) -> Report:
    """Return the accuracy of the fine-tuned encoder ``name``, whose folder and data ``setting`` names, on ERASER's validation and test
    reviews, as figures. Raises ExplainerError if no folder of the data is named.
    """
    if setting.data is None:
        raise ExplainerError("the reviews are not part of Vitrine: name the folder that holds movies/ with --data DIR")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForSequenceClassification.from_pretrained(setting.folder, dtype=torch.float32, local_files_only=True).to(device)
    tokenizer = AutoTokenizer.from_pretrained(setting.folder, local_files_only=True)
    figures = []
    for split, title in SPLITS.items():
        reviews = read_reviews(setting.data, split)
        right, _ = measure_reviews(model, tokenizer, reviews[: setting.limit_to(len(reviews))])
        figures.append(Figure(name, f"accuracy on ERASER movies, {title}", right, note=f"{len(reviews):,} reviews"))
    return Report(figures)
