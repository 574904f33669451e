"""The models that Vitrine names: those that ship inside it first, then well-known ones of the hub."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from explainers.errors import ExplainerError
from explainers.models.inputs.types import ModelKind


@dataclass(frozen=True)
class CatalogueEntry:
    """A model by the name that ``load`` takes. ``source`` says where it comes from.

    photos       whether it is made for people's own photos
    recommended  for a model of the hub: whether it is a good one to download first
    megabytes    size of the download of its weights; None if unknown
    good_for     what it is useful for, in a phrase
    """

    name: str
    kind: ModelKind
    title: str
    description: str
    embedded: bool
    source: str
    photos: bool = False
    recommended: bool = False
    megabytes: int | None = None
    good_for: str = ""


def _embedded(name: str, kind: ModelKind, title: str, description: str, photos: bool = False) -> CatalogueEntry:
    return CatalogueEntry(name, kind, title, description, True, "made for Vitrine", photos=photos, good_for=_GOOD_FOR[name])


def _hub(
    name: str, kind: ModelKind, title: str, description: str, recommended: bool = False, megabytes: int | None = None
) -> CatalogueEntry:
    source = "timm" if name.startswith("timm/") else "transformers"
    known = CatalogueEntry(name, kind, title, description, False, source, recommended=recommended, megabytes=megabytes)
    return replace(known, good_for=_GOOD_FOR[name])


#: What each model is useful for.
_GOOD_FOR = {
    "scenes-vit": "seeing whether a map finds what is known to be there: every scene comes with the outlines of its objects",
    "clip": "asking a picture for anything that can be said in a few English words",
    "photos-vit": "photos of your own",
    "reviews-bert": "film reviews in English, with praise, blame and negation in one text",
    "molecules": "seeing whether a map finds the groups of atoms that chemists know to make a molecule mutagenic",
    "timm/vit_base_patch16_224.augreg2_in21k_ft_in1k": "photos, at the size of published results",
    "timm/deit3_base_patch16_224.fb_in1k": "how methods fare with LayerScale",
    "timm/eva02_small_patch14_336.mim_in22k_ft_in1k": "how methods fare with SwiGLU and rotary positions",
    "timm/beitv2_base_patch16_224.in1k_ft_in22k_in1k": "how methods fare where no classification token is read",
    "hf/openai/clip-vit-base-patch32": "prompts, at the size of published results",
    "hf/google/siglip-base-patch16-224": "how methods fare where the head pools with attention",
    "hf/textattack/bert-base-uncased-SST-2": "sentences of reviews, at the size of published results",
    "hf/distilbert/distilbert-base-uncased-finetuned-sst-2-english": "sentences of reviews, quicker",
}

CATALOGUE: list[CatalogueEntry] = [
    _embedded("scenes-vit", "image", "Scenes ViT", "Names the objects in rendered scenes, 14 x 14 patches."),
    _embedded("clip", "clip", "CLIP", "Matches photos and rendered scenes with English prompts such as 'a photo of a puppy'."),
    _embedded("photos-vit", "image", "Photos ViT", "Names ImageNet's 1,000 classes in photos, 14 x 14 patches.", photos=True),
    _embedded("reviews-bert", "text", "Reviews BERT", "Says whether a movie review is positive or negative."),
    _embedded("molecules", "molecule", "Molecules", "Says whether a molecule is mutagenic, by the Ames test; not for safety decisions."),
    _hub(
        "timm/vit_base_patch16_224.augreg2_in21k_ft_in1k",
        "image",
        "ViT-B/16",
        "The Vision Transformer, 1000 ImageNet classes.",
        recommended=True,
        megabytes=346,
    ),
    _hub("timm/deit3_base_patch16_224.fb_in1k", "image", "DeiT III-B/16", "A ViT with LayerScale, 1000 ImageNet classes."),
    _hub("timm/eva02_small_patch14_336.mim_in22k_ft_in1k", "image", "EVA-02-S/14", "SwiGLU and rotary positions, 1000 ImageNet classes."),
    _hub(
        "timm/beitv2_base_patch16_224.in1k_ft_in22k_in1k",
        "image",
        "BEiT v2-B/16",
        "Relative positions, mean pooling, 1000 ImageNet classes.",
    ),
    _hub(
        "hf/openai/clip-vit-base-patch32",
        "clip",
        "CLIP ViT-B/32",
        "Image and text, trained by OpenAI on 400 million pairs.",
        recommended=True,
        megabytes=605,
    ),
    _hub("hf/google/siglip-base-patch16-224", "clip", "SigLIP-B/16", "Image and text, attention pooling."),
    _hub("hf/textattack/bert-base-uncased-SST-2", "text", "BERT-base SST-2", "Sentiment of sentences from movie reviews."),
    _hub("hf/distilbert/distilbert-base-uncased-finetuned-sst-2-english", "text", "DistilBERT SST-2", "Sentiment, half the size of BERT."),
]


def embedded_names() -> list[str]:
    """Return the names of the embedded models that are present in this installation."""
    return [entry.name for entry in CATALOGUE if entry.embedded and (_folder() / entry.name / "config.json").is_file()]


def photos_model() -> str:
    """Return the name of the embedded model for the photos that people bring."""
    return next(entry.name for entry in CATALOGUE if entry.embedded and entry.photos)


def embedded_path(name: str) -> Path:
    """Return the folder of the embedded model ``name``. Raises ExplainerError for an unknown name."""
    if name not in embedded_names():
        raise ExplainerError(f"there is no embedded model {name!r}; there are {', '.join(embedded_names())}")
    return _folder() / name


def _folder() -> Path:
    return Path(str(files("explainers.embedded"))) / "models"
