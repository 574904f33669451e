"""Interactions of words and patches against exCLIP's own code, on a model of OpenCLIP, whose pictures pass a norm before the blocks."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import explainers
from explainers.analysis.interactions.inputs import encode
from explainers.models.encoders import encoder
from tests.explainers.support.golden import GOLDEN

open_clip = pytest.importorskip("open_clip")
FOLDER = GOLDEN / "exclip-openclip"
START, END, PADDING = 58, 59, 0


def numbered(count: int) -> Any:
    """A tokenizer whose words are the numbers of its pieces: "w07" is 7."""
    tokenizer = Tokenizer(models.WordLevel({f"w{i:02d}": i for i in range(count)}, unk_token="w01"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    ends = [(f"w{i:02d}", i) for i in (START, END)]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{ends[0][0]} $A {ends[1][0]}", special_tokens=ends)  # type: ignore[assignment]
    named = {"bos_token": ends[0][0], "eos_token": ends[1][0], "pad_token": f"w{PADDING:02d}"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w01", model_max_length=10, **named)


@cache
def model() -> explainers.Model:
    about = json.loads((FOLDER / "model.json").read_text("utf-8"))
    module = open_clip.CLIP(**about["kwargs"]).double().eval()
    with np.load(FOLDER / "weights.npz") as weights:
        module.load_state_dict({name: torch.tensor(weights[name]) for name in weights})
    return explainers.wrap(module, kind="clip", tokenizer=numbered(60))


@pytest.mark.parametrize("steps", [10, 50])
@pytest.mark.parametrize(("layer", "block"), [(0, "first"), (2, "last")])
def test_pairs_are_those_of_the_published_code(layer: int, block: Any, steps: int) -> None:
    with np.load(FOLDER / "inputs.npz") as inputs:
        pixels, ids = {"pixel_values": torch.tensor(inputs["pixel_values"])}, inputs["input_ids"][0].tolist()
    words = ids[ids.index(START) + 1 : ids.index(END)]
    prompt = " ".join(f"w{word:02d}" for word in words)
    way: dict[str, Any] = {"rule": "gradient", "steps": steps, "baseline": "empty", "block": block, "quadrature": "riemann"}
    found = explainers.interaction(model(), pixels, prompt, **way)
    with np.load(FOLDER / "outputs.npz") as outputs:
        theirs, terms = (torch.tensor(outputs[f"{name}_layer{layer}_N{steps}"]) for name in ("pairs", "terms"))
    of_words = theirs[1:-1].flatten(1)
    assert float((found.pairs - of_words).abs().max() / of_words.abs().max()) < 1e-6
    assert found.cosine == pytest.approx(float(terms[0]), rel=1e-6)
    assert found.total == pytest.approx(float(of_words.sum()), rel=1e-5)


def test_zero_and_empty_are_different_paths_and_the_first_block_is_entered_behind_the_norm() -> None:
    module: Any = model().module
    with np.load(FOLDER / "inputs.npz") as inputs:
        pixels = {"pixel_values": torch.tensor(inputs["pixel_values"])}
    seen: list[torch.Tensor] = []
    handle = module.visual.ln_pre.register_forward_hook(lambda *call: seen.append(call[-1]))
    with torch.no_grad():
        module.encode_image(pixels["pixel_values"])
        module.encode_image(torch.zeros_like(pixels["pixel_values"]))
    handle.remove()
    side = encode(encoder(model(), "image"), model().prepare(pixels), "empty")
    torch.testing.assert_close(side.tokens, seen[0][0])
    torch.testing.assert_close(side.baseline_tokens, seen[1][0])
