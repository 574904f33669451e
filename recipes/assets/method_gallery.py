"""The maps of the Methods page: ``python -m recipes.assets.method_gallery`` makes ``static/pages/gallery/gallery.json``.

Every method with each of its own rules explains one sample photo to ``photos-vit``, and the quick ones a prompt to ``clip`` and a
sentence to ``reviews-bert``; what is kept are the scores of the patches or words, in 127 steps. The photo itself is not copied: the
page shows the sample, cut as the model saw it. Next to them stands what happens to a signal on its way back through one block, under
every rule (:func:`way_back`), on the same photo. Slow methods make this take some minutes.
"""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import explainers
from explainers import METHODS
from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule

ROOT = Path(__file__).parents[2]
OUT = ROOT / "static" / "pages" / "gallery" / "gallery.json"
SAMPLE, PHOTO, PROMPT = "photo-dogs", "dogs.jpg", "a photo of a dog"
TEXT = "A sad story, told with great warmth: I left smiling, and I would see it again."
STEPS = 127
BLOCK = 3  # counted from 0: three blocks come before it, two after it
#: The places at which the signal is read, from the output of the block back to its input.
STAGES = (
    "output",
    "activation_output",
    "activation_input",
    "mlp_norm_output",
    "mlp_norm_input",
    "between",
    "attention_output",
    "attention_input",
    "attention_norm_input",
    "input",
)


def pack_scores(scores: Tensor) -> str:
    """Encode ``scores`` (N,) in base64, and return the text: each is divided by the largest magnitude and rounded to a signed byte of
    ``STEPS`` steps.
    """
    values = scores.double().numpy()
    largest = np.abs(values).max(initial=0.0)
    steps = np.round(values / largest * STEPS) if largest > 0 else np.zeros_like(values)
    return base64.b64encode(steps.astype(np.int8).tobytes()).decode("ascii")


def hook_block(block: nn.Module, seen: dict[str, Tensor]) -> list[Any]:
    """Hook a block of timm's so that ``seen`` maps each stage to the tensor there in the next pass; returns the handles of the hooks.

    The block must be norm, attention, norm, MLP, each half on a branch of the residual path. What goes into a norm goes in by a view of its
    own, so that its signal is that of the branch alone.
    """

    def keep(stage: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            seen[stage] = output

        return hook

    def keep_input(stage: str) -> Callable[..., tuple[Tensor, ...]]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            branch = inputs[0].view_as(inputs[0])
            seen[stage] = branch
            return (branch, *inputs[1:])

        return hook

    parts = {name: block.get_submodule(name) for name in ("norm1", "norm2", "attn.proj", "mlp.act")}
    return [
        parts["norm1"].register_forward_pre_hook(keep_input("attention_norm_input")),
        parts["norm1"].register_forward_hook(keep("attention_input")),
        parts["attn.proj"].register_forward_pre_hook(keep_input("attention_output")),
        parts["norm2"].register_forward_pre_hook(keep_input("mlp_norm_input")),
        parts["norm2"].register_forward_hook(keep("mlp_norm_output")),
        parts["mlp.act"].register_forward_pre_hook(keep_input("activation_input")),
        parts["mlp.act"].register_forward_hook(keep("activation_output")),
    ]


def way_back(
    model: explainers.Model, tensors: dict[str, Tensor], index: int, rules: list[Rule], block: int = BLOCK
) -> dict[str, dict[str, list[float]]]:
    """Return for each rule how a signal that starts at the logit ``index`` changes on its way back through block ``block`` of ``model``,
    whose input is ``tensors``.

    For each of ``STAGES``: ``norms``, the Euclidean norm of the signal over all tokens and channels, and ``carried``, the sum of value
    times signal (under a rule of relevance, whose signal holds the values already, of the signal), which is how much of the logit passes
    there.

    ``output``, ``between`` and ``input`` lie on the residual path; the others on its two branches. One recorded pass, and
    :func:`torch.autograd.grad` under each rule: what the methods read.
    """
    seen: dict[str, Tensor] = {}
    handles = hook_block(model.blocks[block], seen)
    try:
        recording = Recording(model, tensors, double=True)  # relevance divides by sums that come close to zero
    finally:
        for handle in handles:
            handle.remove()
    middle = recording.mid_residuals[block]
    assert middle is not None
    seen |= {"output": recording.block_outputs[block], "between": middle, "input": recording.block_inputs[block]}
    start = torch.zeros_like(recording.logits)
    start[:, index] = 1
    ways = {}
    for rule in rules:
        tensors_at = [seen[stage] for stage in STAGES]
        arrived = (recording.pull(rule, recording.logits, at, start) for at in tensors_at)
        signals = [torch.zeros_like(at) if signal is None else signal for at, signal in zip(tensors_at, arrived, strict=True)]
        carried = [signal if rule.is_relevance else value.detach() * signal for value, signal in zip(tensors_at, signals, strict=True)]
        ways[rule.name] = {
            "norms": [float(f"{signal.norm():.4g}") for signal in signals],
            "carried": [float(f"{terms.sum():.4g}") for terms in carried],
        }
    return ways


def explain_all(name: str, inputs: Any, target: str | None, content: bool, *, slow: bool) -> dict[str, Any]:
    """Explain one input, ``inputs``, by every method that the model ``name`` can run (slow ones only with ``slow``): return the explained
    class, ``target`` or by default the model's answer, and for each spec the encoded scores of patches (with ``content``) or of words.
    """
    model = explainers.load(name)
    maps: dict[str, str] = {}
    about: dict[str, Any] = {}
    for variant in explainers.variants():
        is_of_prompts = "prompts" in METHODS[variant.method_name].needs  # no other model has a map of these
        if variant.slow and not (slow or is_of_prompts):
            continue
        try:
            result = explainers.explain(model, inputs, target, [variant.spec])
        except explainers.ExplainerError as refused:  # no method of this model
            print(f"{name}, {variant.spec}: {refused}", flush=True)
            continue
        attribution = result[variant.spec]
        about = {"model": name, "label": result.target.label, **({"grid": list(attribution.patches or ())} if content else {})}
        scores = attribution.scores[attribution.content] if content else torch.tensor([word.score for word in attribution.words()])
        if not content:
            about["words"] = [word.text for word in attribution.words()]
        maps[variant.spec] = pack_scores(scores)
        print(f"{name}, {variant.spec}: {attribution.seconds:.1f} s", flush=True)
    return {**about, "maps": maps}


def gallery() -> dict[str, Any]:
    """Return the document of ``gallery.json``.

    For each kind of input: its model, the class, the scores of each method, and the photo's ``sample`` with the part of it that the model
    saw, or the words; and ``way``, the way back through one block under each rule.
    """
    photo = str(ROOT / "explainers" / "embedded" / "samples" / "photos" / PHOTO)
    model = explainers.load("photos-vit")
    prepared = {name: explainers.load(name).prepare(photo) for name in ("photos-vit", "clip")}
    crops = {name: {"sample": SAMPLE, "crop": list(one.inputs[0].crop)} for name, one in prepared.items()}  # type: ignore[union-attr]
    (result,) = explainers.explain(model, prepared["photos-vit"], None, ["random"])
    assert result.target.index is not None
    ways = way_back(model, prepared["photos-vit"].tensors, result.target.index, list(explainers.RULES.values()))
    return {
        "image": {**explain_all("photos-vit", photo, None, True, slow=True), **crops["photos-vit"]},
        "clip": {**explain_all("clip", photo, PROMPT, True, slow=False), **crops["clip"]},
        "text": explain_all("reviews-bert", TEXT, None, False, slow=False),
        "way": {"model": "photos-vit", "block": BLOCK + 1, "of": len(model.blocks), "stages": list(STAGES), "rules": ways},
    }


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    OUT.write_text(json.dumps(gallery(), indent=1) + "\n", "utf-8")
