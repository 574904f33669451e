"""The models that Vitrine names: those that ship inside it first, then well-known ones of the hub."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from explainers.errors import ExplainerError
from explainers.models.base import Kind

UNSURE = 0.35  # a likeliest class of a smaller probability is a guess


@dataclass(frozen=True)
class Entry:
    """A model by the name that ``load`` takes. ``source`` says where it comes from.

    knows_more  of an embedded model that names everyday photos: a model of the hub that would know what it doesn't
    """

    name: str
    kind: Kind
    title: str
    description: str
    embedded: bool
    source: str
    knows_more: str | None = None


def _embedded(name: str, kind: Kind, title: str, description: str, knows_more: str | None = None) -> Entry:
    return Entry(name, kind, title, description, True, "trained for Vitrine", knows_more)


def _hub(name: str, kind: Kind, title: str, description: str) -> Entry:
    return Entry(name, kind, title, description, False, "timm" if name.startswith("timm/") else "transformers")


CATALOGUE: list[Entry] = [
    _embedded("scenes-vit", "image", "Scenes ViT", "Names the objects in rendered scenes, 14 x 14 patches."),
    _embedded("clip", "clip", "CLIP", "Matches photos and rendered scenes with English prompts such as 'a photo of a puppy'."),
    _embedded(
        "photos-vit",
        "image",
        "Photos ViT",
        "Names 32 everyday categories in photos, 16 x 16 patches.",
        knows_more="timm/vit_base_patch16_224.augreg2_in21k_ft_in1k",
    ),
    _embedded("reviews-bert", "text", "Reviews BERT", "Says whether a movie review is positive or negative."),
    _hub("timm/vit_base_patch16_224.augreg2_in21k_ft_in1k", "image", "ViT-B/16", "The Vision Transformer, 1000 ImageNet classes."),
    _hub("timm/deit3_base_patch16_224.fb_in1k", "image", "DeiT III-B/16", "A ViT with LayerScale, 1000 ImageNet classes."),
    _hub("timm/eva02_small_patch14_336.mim_in22k_ft_in1k", "image", "EVA-02-S/14", "SwiGLU and rotary positions, 1000 ImageNet classes."),
    _hub(
        "timm/beitv2_base_patch16_224.in1k_ft_in22k_in1k",
        "image",
        "BEiT v2-B/16",
        "Relative positions, mean pooling, 1000 ImageNet classes.",
    ),
    _hub("hf/openai/clip-vit-base-patch32", "clip", "CLIP ViT-B/32", "Image and text, trained by OpenAI on 400 million pairs."),
    _hub("hf/google/siglip-base-patch16-224", "clip", "SigLIP-B/16", "Image and text, attention pooling."),
    _hub("hf/textattack/bert-base-uncased-SST-2", "text", "BERT-base SST-2", "Sentiment of sentences from movie reviews."),
    _hub("hf/distilbert/distilbert-base-uncased-finetuned-sst-2-english", "text", "DistilBERT SST-2", "Sentiment, half the size of BERT."),
]


def doubt(name: str, probability: float) -> list[str]:
    """A note for a person where an embedded model is unsure: its likeliest class has less than ``UNSURE``. None of other models."""
    knows_more = next((entry.knows_more for entry in CATALOGUE if entry.name == name), None)
    if knows_more is None or probability >= UNSURE:
        return []
    return [f"{name} is small and does not know what this is: its best guess has {probability:.0%}. {knows_more} knows many more things."]


def embedded_names() -> list[str]:
    """Names of the models that ship inside, those that are really there."""
    return [entry.name for entry in CATALOGUE if entry.embedded and (_folder() / entry.name / "config.json").is_file()]


def embedded_path(name: str) -> Path:
    """The folder of an embedded model. Raises ExplainerError for a name that is none."""
    if name not in embedded_names():
        raise ExplainerError(f"there is no embedded model {name!r}; there are {', '.join(embedded_names())}")
    return _folder() / name


def _folder() -> Path:
    return Path(str(files("embedded"))) / "models"
