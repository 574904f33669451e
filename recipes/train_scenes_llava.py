"""``scenes-llava``: a small vision-language model that answers questions about rendered scenes, of transformers' class for LLaVA.

Its vision tower is the first blocks of scenes-vit, frozen, as CLIP's vision tower of transformers, which is the same network; projector and
decoder, a small Llama, are trained on questions whose answers the renderer knows. The tokens of a number of scenes are computed once and
kept on disk, and the questions are drawn anew each time. The questions about one scene are trained in one row, in which each sees the
picture and itself alone, so that the row equals as many rows of one question each. From most batches picture tokens are removed, so that
the model knows pictures of which parts are hidden, as evaluations make them. In the first part of the training the decoder is also asked
at each picture token what that shows, less and less, as in the recipe of scenes-vit: words and what they stand for meet sooner.
"""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split
import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm import tqdm
from transformers import LlavaForConditionalGeneration

from explainers.embedded.synthetic.scene_questions import (
    NOTHING,
    PHRASES,
    Question,
    QuestionKind,
    Thing,
    absent_kind,
    ask,
    colours_of,
    split_words,
    things,
)
from explainers.embedded.synthetic.scenes import BACKGROUNDS, KINDS, Composition, Scene, draw, patch_labels, render
from explainers.models.catalogue import embedded_path
from recipes.networks.llava import PATCH, PATCHES, SIZE, WIDTH, new_model, save, token_numbers
from recipes.networks.trunk import autocast
from recipes.networks.vits import load, tensors
from recipes.training import add_common_arguments, fit, schedule

BATCH = 16
IGNORED_LABEL = -100  # label of tokens that are not learned, as in F.cross_entropy
SCENES = 16_000
TOWER_BATCH = 16  # scenes that the tower reads at once
EMPTY_SHARE = 0.04  # share of the scenes without a thing
COUNT_SHARES = (0.25, 0.3, 0.25, 0.2)  # of the other scenes: those with one, two, three, four things
SEVERAL_COLOURS_WEIGHT = 2.5  # how much likelier a kind of several colours is than another: it is there that colours need the picture
REPHRASED_SHARE = 0.4  # share of the questions that are not asked in the usual words
UNMARKED_SHARE = 0.1  # share of the questions without their question mark
NOWHERE_SHARE = 0.2  # share of the questions after places that are about a thing that is not there
#: The share of picture tokens that is removed up to each share of the training; then one of REMOVED_SHARES is drawn for each batch.
FIRST_REMOVED_SHARES = {0.3: 0.75, 0.6: 0.5}
REMOVED_SHARES = (0.0, 0.0, 0.25, 0.5)
LABELLING_UNTIL = 0.6  # share of the training in which picture tokens are asked what they show, less and less


class Batch(NamedTuple):
    """Scenes with questions: ``features`` float16 (B, PATCHES, WIDTH) of the tower, ``patches`` (B, PATCHES) the word for what each patch
    shows, and of the text of all questions about a scene, (B, tokens): ``ids``, ``positions``, the ``question`` that each token belongs
    to (-1 for padding), and ``labels``, the token that comes next, `IGNORED_LABEL` where it is not of an answer.
    """

    features: Tensor
    patches: Tensor
    ids: Tensor
    positions: Tensor
    question: Tensor
    labels: Tensor


def render_training_scene(rng: np.random.Generator) -> Scene:
    """Render a random scene of none to four things by ``rng``; kinds of several colours are likelier than others."""
    if rng.random() < EMPTY_SHARE:
        empty = Composition(BACKGROUNDS[rng.integers(len(BACKGROUNDS))], int(rng.integers(2**31)), ())
        return draw(empty, SIZE)[0]
    count = int(rng.choice(len(COUNT_SHARES), p=COUNT_SHARES)) + 1
    weights = np.array([SEVERAL_COLOURS_WEIGHT if len(colours_of(kind)) > 1 else 1.0 for kind in KINDS])
    chosen = rng.choice(len(KINDS), count, replace=False, p=weights / weights.sum())
    return render(rng, SIZE, [KINDS[index] for index in chosen])


def draw_questions(shown: Sequence[Thing], rng: np.random.Generator) -> list[Question]:
    """Return random questions about a scene that shows the things ``shown``: what it shows, whether two things are in it, the colour of
    one, and where one is or how many there are, as far as they have answers.
    """

    def one_of(candidates: Sequence[str]) -> str:
        return str(rng.choice(candidates)) if candidates else absent_kind(shown, rng)

    present = [thing.kind for thing in shown]
    varied = [kind for kind in present if len(colours_of(kind)) > 1]
    wanted: list[tuple[QuestionKind, str]] = [
        ("what", ""),
        ("whether", one_of(present)),
        ("whether", absent_kind(shown, rng)),
        ("colour", one_of(varied or present)),
        ("where", absent_kind(shown, rng) if rng.random() < NOWHERE_SHARE else one_of(present)),
        ("count", "") if rng.random() < 0.5 else ("where", one_of(present)),
    ]
    phrases = [int(rng.integers(len(PHRASES[kind]))) if rng.random() < REPHRASED_SHARE else 0 for kind, _ in wanted]
    asked = (ask(kind, shown, about, phrase) for (kind, about), phrase in zip(wanted, phrases, strict=True))
    return [question for question in asked if question is not None]


@torch.inference_mode()
def freeze_scenes(model: LlavaForConditionalGeneration, folder: Path, number: int, seed: int) -> None:
    """Render ``number`` scenes of this ``seed`` and write to ``folder`` the tokens that the tower of ``model`` makes of them
    (``features.npy``, float16 (number, PATCHES, WIDTH)), what each patch shows (``patches.npy``, uint8 (number, PATCHES), by
    :func:`patch_labels`) and the things in each (``things.json``). Nothing is done if all were written before.
    """
    if (folder / "things.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    features = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float16, (number, PATCHES, WIDTH))
    patches = np.lib.format.open_memmap(folder / "patches.npy", "w+", np.uint8, (number, PATCHES))
    found: list[list[Thing]] = []
    for start in tqdm(range(0, number, TOWER_BATCH), desc="scenes"):
        scenes = [
            render_training_scene(np.random.default_rng([seed, 0, index])) for index in range(start, min(number, start + TOWER_BATCH))
        ]
        found += [things(scene) for scene in scenes]
        patches[start : start + len(scenes)] = [patch_labels(scene, PATCH).reshape(-1) for scene in scenes]
        pixels = tensors(torch.from_numpy(np.stack([np.asarray(scene.image) for scene in scenes])), "cpu")
        with autocast():
            features[start : start + len(scenes)] = model.model.vision_tower(pixels).last_hidden_state[:, 1:].half().numpy()
    features.flush()
    patches.flush()
    (folder / "things.json").write_text(json.dumps(found), "utf-8")


class FrozenScenes:
    """The scenes that :func:`freeze_scenes` wrote to ``folder``: the ``features`` of each and its ``patches``, and the things that it
    shows (``shown``).
    """

    def __init__(self, folder: Path) -> None:
        rows = json.loads((folder / "things.json").read_text("utf-8"))
        self.shown = [[Thing(kind, colour, (x, y)) for kind, colour, (x, y) in row] for row in rows]
        self.features: NDArray[np.float16] = np.load(folder / "features.npy", mmap_mode="r")
        self.patches: NDArray[np.uint8] = np.load(folder / "patches.npy", mmap_mode="r")

    def batches(self, seed: int, first: int) -> Iterator[Batch]:
        """Yield the batches ``first``, ``first + 1``, ... of the endless sequence of scenes with random questions that ``seed`` names."""
        words = torch.tensor([token_numbers()[split_words(noun)[-1]] for noun in (*KINDS, NOTHING)])
        while True:
            rng = np.random.default_rng([seed, 1, first])
            chosen = np.sort(rng.choice(len(self.shown), BATCH, replace=False))
            asked = [draw_questions(self.shown[index], rng) for index in chosen]
            features, patches = torch.from_numpy(self.features[chosen]), torch.from_numpy(self.patches[chosen]).long()
            yield Batch(features, words[patches], *encode_questions(asked, rng))
            first += 1


def encode_questions(asked: Sequence[Sequence[Question]], rng: np.random.Generator | None = None) -> tuple[Tensor, ...]:
    """Return for each scene the questions ``asked`` about it, with their answers, as the tensors of :class:`Batch` after the first. With
    ``rng`` some lose their question mark.
    """
    numbers, rows = token_numbers(), []
    for questions in asked:
        row: list[tuple[int, int, int, int]] = []
        for index, each in enumerate(questions):
            words = split_words(each.text)
            words = words[:-1] if rng is not None and rng.random() < UNMARKED_SHARE else words
            answer = [numbers[word] for word in split_words(each.answer)]
            ids = [*(numbers[word] for word in words), *answer]
            labels = [*[IGNORED_LABEL] * (len(words) - 1), *answer, numbers["</s>"]]
            first = 1 + PATCHES  # after the start and the picture
            row += [(token, first + place, index, label) for place, (token, label) in enumerate(zip(ids, labels, strict=True))]
        rows.append(row)
    filling = (numbers["<pad>"], 0, -1, IGNORED_LABEL)
    longest = max(map(len, rows))
    padded = torch.tensor([row + [filling] * (longest - len(row)) for row in rows])
    return tuple(padded.unbind(-1))


def packed_logits(model: LlavaForConditionalGeneration, batch: Batch, kept: Tensor, with_patches: bool = False) -> tuple[Tensor, Tensor]:
    """Return the logits of ``model`` at every token of the questions of ``batch`` with a label, (labels, vocabulary), and at the patches
    ``kept`` (B, n), which alone are read, in their places: (B, n, vocabulary), empty without ``with_patches``.
    """
    inner, size, device = model.model, len(batch.ids), batch.ids.device
    picture = inner.multi_modal_projector(batch.features.float().gather(1, kept[..., None].expand(-1, -1, WIDTH)))
    embed = inner.get_input_embeddings()
    start = embed(torch.full((size, 1), token_numbers()["<s>"], device=device))
    x = torch.cat([start, picture, embed(batch.ids)], 1)
    positions = torch.cat([torch.zeros(size, 1, dtype=torch.long, device=device), 1 + kept, batch.positions], 1)
    prefix = 1 + kept.shape[1]
    owner = torch.cat([torch.full((size, prefix), -2, device=device), batch.question], 1)  # -2 is seen by all that come later
    seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=device).tril() & (
        (owner[:, None] == -2) | (owner[:, None] == owner[..., None])
    )
    mask = torch.zeros(seen.shape, device=device).masked_fill(~seen, torch.finfo(torch.float32).min)[:, None]
    hidden = inner.language_model(inputs_embeds=x, attention_mask=mask, position_ids=positions, use_cache=False).last_hidden_state
    of_patches = hidden[:, 1 : prefix if with_patches else 1]
    return model.lm_head(hidden[:, prefix:][batch.labels != IGNORED_LABEL]), model.lm_head(of_patches)


class _Trained(nn.Module):
    """The parts of the model that are trained, so that the frozen tower is in no checkpoint: the projector and the decoder."""

    def __init__(self, model: LlavaForConditionalGeneration) -> None:
        super().__init__()
        self.projector, self.decoder = model.model.multi_modal_projector, model.model.language_model


def train(args: argparse.Namespace) -> None:
    """Train the model and write its folder, ``args.out``. ``args`` are the parsed arguments that ``add_arguments`` declares."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    model = new_model(load(embedded_path("scenes-vit")))
    freeze_scenes(model, args.out / "scenes", args.scenes, args.seed)
    scenes = FrozenScenes(args.out / "scenes")
    model.to(args.device)

    def loss(batch: Batch, progress: float, step: int) -> tuple[Tensor, float]:
        rng = np.random.default_rng([args.seed, 2, step])
        removed = next((share for until, share in FIRST_REMOVED_SHARES.items() if progress < until), float(rng.choice(REMOVED_SHARES)))
        order = torch.from_numpy(rng.random((len(batch.ids), PATCHES))).argsort(1)
        kept = order[:, : round(PATCHES * (1 - removed))].sort(1).values.to(args.device)
        batch = Batch(*(tensor.to(args.device) for tensor in batch))
        weight = max(0.0, 1 - progress / LABELLING_UNTIL)
        with autocast():
            logits, of_patches = packed_logits(model, batch, kept, weight > 0)
        labels = batch.labels[batch.labels != IGNORED_LABEL]
        value = F.cross_entropy(logits.float(), labels)
        if weight:
            value = value + weight * F.cross_entropy(of_patches.float().flatten(0, 1), batch.patches.gather(1, kept).flatten())
        return value, float((logits.argmax(1) == labels).float().mean())

    fit(
        _Trained(model),
        lambda first: scenes.batches(args.seed, first),
        loss,
        **schedule(args),
        rate=args.rate,
        warm_up=60,
        decay=0.995,
        muon=lambda name: ".layers." in name,
    )
    save(model.cpu(), args.out)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads, on ``parser``."""
    add_common_arguments(parser, minutes=65)
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate (default 2e-3)")
    parser.add_argument("--scenes", type=int, default=SCENES, help=f"number of scenes to ask about (default {SCENES})")
    parser.add_argument("--threads", type=int, default=1, help="threads to compute with (default 1)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())
