"""The models that Vitrine names: those that ship inside it first, then well-known ones of the hub."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from explainers.errors import ExplainerError
from explainers.models.inputs.types import ModelKind


@dataclass(frozen=True)
class CatalogueEntry:
    """A model by the name that ``load`` takes.

    kind         what it reads, such as "image" or "text"; "clip" compares pictures with prompts
    title        its name for people; ``description`` says in a phrase what it is
    embedded     whether its weights ship with Vitrine; else they come from the hub
    source       where it comes from
    photos       whether it is made for people's own photos
    recommended  for a model of the hub: whether it is a good one to download first
    megabytes    size of the download of its weights; None if unknown
    revision     the commit of the hub's repository that is taken; None for the newest
    labels       names of the classes, where the model's own files have none
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
    revision: str | None = None
    labels: tuple[str, ...] = ()
    good_for: str = ""


def _embedded(name: str, kind: ModelKind, title: str, description: str, photos: bool = False) -> CatalogueEntry:
    return CatalogueEntry(name, kind, title, description, True, "made for Vitrine", photos=photos, good_for=_GOOD_FOR[name])


def _hub(name: str, kind: ModelKind, title: str, description: str) -> CatalogueEntry:
    source = "timm" if name.startswith("timm/") else "transformers"
    return CatalogueEntry(name, kind, title, description, False, source, good_for=_GOOD_FOR[name])


def _recommended(entry: CatalogueEntry, megabytes: int, revision: str, labels: tuple[str, ...] = ()) -> CatalogueEntry:
    return replace(entry, recommended=True, megabytes=megabytes, revision=revision, labels=labels)


#: What each model is useful for.
_GOOD_FOR = {
    "scenes-vit": "seeing whether a map finds what is known to be there: every scene comes with the outlines of its objects",
    "clip": "asking a picture for a thing that ImageNet has a word for",
    "photos-vit": "photos of your own",
    "reviews-bert": "film reviews in English, with praise, blame and negation in one text",
    "scenes-llava": "seeing which words of an answer came from the picture: of each question it is known whether it needs one",
    "molecules": "seeing whether a map finds the groups of atoms that chemists know to make a molecule mutagenic",
    "timm/vit_base_patch16_224.augreg2_in21k_ft_in1k": "photos, at the size of published results",
    "timm/deit3_base_patch16_224.fb_in1k": "how methods fare with LayerScale",
    "timm/eva02_small_patch14_336.mim_in22k_ft_in1k": "how methods fare with SwiGLU and rotary positions",
    "timm/beitv2_base_patch16_224.in1k_ft_in22k_in1k": "how methods fare where no classification token is read",
    "hf/openai/clip-vit-base-patch16": "prompts, at the size of published results",
    "hf/openai/clip-vit-base-patch32": "prompts, quicker: a quarter of the patches",
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
    _embedded("scenes-llava", "text", "Scenes LLaVA", "Answers questions about rendered scenes: what is there, of which colour, where."),
    # One for each page: one press away there.
    _recommended(
        _hub("timm/vit_base_patch16_224.augreg2_in21k_ft_in1k", "image", "ViT-B/16", "The Vision Transformer, 1000 ImageNet classes."),
        megabytes=346,
        revision="063c6c38a5d8510b2e57df480445e94b231dad2c",
    ),
    _recommended(
        _hub("hf/openai/clip-vit-base-patch16", "clip", "CLIP ViT-B/16", "Image and text, trained by OpenAI on 400 million pairs."),
        megabytes=599,
        revision="57c216476eefef5ab752ec549e440a49ae4ae5f3",
    ),
    _recommended(
        _hub("hf/textattack/bert-base-uncased-SST-2", "text", "BERT-base", "BERT fine-tuned on sentences of film reviews (SST-2)."),
        megabytes=438,
        revision="95f0f6f859b35c8ff0863ae3cd4e2dbc702c0ae2",
        labels=("negative", "positive"),
    ),
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
    _hub("hf/distilbert/distilbert-base-uncased-finetuned-sst-2-english", "text", "DistilBERT SST-2", "Sentiment, half the size of BERT."),
]


def catalogued(name: str) -> CatalogueEntry | None:
    """Return the entry of the model called ``name``; None if it is not in the catalogue."""
    return next((entry for entry in CATALOGUE if entry.name == name), None)


def pinned_revision(name: str) -> str | None:
    """Return the commit of the hub that is taken of the model ``name``; None for the newest."""
    entry = catalogued(name)
    return None if entry is None else entry.revision


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
