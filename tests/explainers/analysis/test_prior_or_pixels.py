"""Shares of a logit: equal to a separate calculation in float64, zero where no path is left, and unmoved by a picture that is not seen."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers
from explainers.errors import ExplainerError
from explainers.models.inputs.types import ANSWER, PICTURE, Prepared
from tests.explainers.support.explained import image_model
from tests.support.encoder_decoders import PICTURE_ENCODERS, PICTURE_SIDE
from tests.support.encoder_decoders import picture_writer as written_from_picture
from tests.support.encoder_decoders import tokenizer as words_of_writers
from tests.support.picture_models import FAMILIES, build, llava_next, process, qwen3_vl
from tests.support.task_models import picture_writer
from vitrine_server.cli import main

PIXELS = np.random.default_rng(0).integers(0, 256, (64, 100, 3), dtype=np.uint8)
PICTURE_ASKED, GREY = Image.fromarray(PIXELS), Image.fromarray(np.full_like(PIXELS, 128))


def made(make: Any) -> tuple[explainers.Model, Any, Any]:
    """A family's model in double precision, its module, and its processor."""
    module, processor = build(make)
    module.double()
    return explainers.wrap(module, preprocess=processor), module, processor


def asked(processor: Any, picture: Image.Image = PICTURE_ASKED) -> explainers.PicturePrompt:
    return explainers.PicturePrompt(picture, f"a good {processor.image_token} film")


def divided(model: Any, prompt: Any) -> Any:
    return explainers.prior_or_pixels(model, prompt)


def shares_by_hand(module: Any, tensors: dict[str, Tensor], parts: Tensor, rows: list[list[int]]) -> Tensor:
    """The shares of the logits of words, by propagating each part of the embedded tokens through a Llama or Qwen3 decoder forward: its
    attention weights, the scales of its norms and the gates of its SiLU are held, and a product of two paths is halved.

    ``parts`` (S,) is 0, 1 or 2 for each token; ``rows`` lists the tokens of each word.
    """
    inner = module.model.language_model
    given: dict[str, Any] = {}
    kept: dict[Any, Any] = {}

    def take(_: Any, __: Any, kwargs: dict[str, Any]) -> None:
        given.update(kwargs)

    handles = [inner.register_forward_pre_hook(take, with_kwargs=True)]
    for number, layer in enumerate(inner.layers):

        def keep(name: str, number: int = number) -> Any:
            return lambda _, args, kwargs, out: kept.__setitem__((name, number), (args[0] if args else kwargs["hidden_states"], out))

        named = {"n1": layer.input_layernorm, "n2": layer.post_attention_layernorm, "gate": layer.mlp.gate_proj, "up": layer.mlp.up_proj}
        named["attention"] = layer.self_attn
        handles += [module_.register_forward_hook(keep(name), with_kwargs=True) for name, module_ in named.items()]
    handles.append(inner.norm.register_forward_hook(lambda _, args, out: kept.__setitem__("norm", (args[0], out))))
    inner.config._attn_implementation = "eager"
    with torch.no_grad():
        module(**tensors)
    for handle in handles:
        handle.remove()

    def scale(norm: Any, x: Tensor) -> Any:
        return norm.weight * (x.square().mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()

    streams = torch.stack([given["inputs_embeds"][0] * (parts == part)[:, None] for part in range(3)])
    deep = given.get("deepstack_visual_embeds") or ()
    with torch.no_grad():
        for number, layer in enumerate(inner.layers):
            attention, weights = layer.self_attn, kept["attention", number][1][1][0]  # (H, S, S)
            normed = streams * scale(layer.input_layernorm, kept["n1", number][0][0])
            values = (normed @ attention.v_proj.weight.T).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
            values = values.repeat_interleave(len(weights) // values.shape[1], 1)
            streams = streams + (weights @ values).transpose(1, 2).flatten(2) @ attention.o_proj.weight.T
            normed = streams * scale(layer.post_attention_layernorm, kept["n2", number][0][0])
            gate, up = kept["gate", number][1][0], kept["up", number][1][0]
            through_gate = (normed @ layer.mlp.gate_proj.weight.T) * gate.sigmoid() * up
            through_up = (normed @ layer.mlp.up_proj.weight.T) * gate * gate.sigmoid()
            streams = streams + (through_gate + through_up) / 2 @ layer.mlp.down_proj.weight.T
            if number < len(deep):
                streams[0, parts == 0] += deep[number]
        logits = streams * scale(inner.norm, kept["norm"][0][0]) @ module.lm_head.weight.T
    ids = tensors["input_ids"][0]
    return torch.stack([sum((logits[:, i - 1, ids[i]] for i in row), logits.new_zeros(3)) for row in rows])


@pytest.mark.parametrize("make", [llava_next, qwen3_vl])
def test_shares_are_those_of_a_separate_calculation(make: Any) -> None:
    """The second adds its picture to later blocks too, which counts as the picture."""
    model, module, processor = made(make)
    found = divided(model, asked(processor))
    result: Any = explainers.explain(model, asked(processor), methods="random")
    places = {place.at: place.tokens for place in result.places}
    rows = [list(range(places[at][0], places[at][1] + 1)) for at in found.places]
    parts = torch.tensor([{PICTURE: 0, ANSWER: 2}.get(token.part, 1) for token in result.input.tokens])
    assert found.parts == ("picture", "prompt", "answer so far", "constant")
    tensors = result.tensors
    for side, picture in ((found.original, PICTURE_ASKED), (found.grey, GREY)):
        pixels = process(processor, asked(processor).text, picture)["pixel_values"].double()
        expected = shares_by_hand(copy.deepcopy(module), {**tensors, "pixel_values": pixels}, parts, rows)
        torch.testing.assert_close(side.shares[:, :3].double(), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(side.logits.double(), expected.sum(1), rtol=1e-4, atol=1e-4)
        assert float(side.missing.abs().max()) < 1e-4  # the epsilons of norms
        assert float(side.shares[:, 3].abs().max()) < 1e-4
    assert float(found.from_pixels.abs().max()) > 0.1
    assert any("counted as the picture's" in note for note in found.notes) == (make is qwen3_vl)


@pytest.mark.parametrize("name", FAMILIES)
def test_shares_add_up_to_the_logits_of_the_plain_model(name: str) -> None:
    model, module, processor = made(FAMILIES[name][0])
    found = divided(model, asked(processor))
    result: Any = explainers.explain(model, asked(processor), methods="random")
    places = {place.at: place.tokens for place in result.places}
    ids = result.tensors["input_ids"][0]
    for side, picture in ((found.original, PICTURE_ASKED), (found.grey, GREY)):
        pixels = process(processor, asked(processor).text, picture)["pixel_values"].double()
        with torch.no_grad():
            logits = module(**{**result.tensors, "pixel_values": pixels}).logits[0]
        expected = torch.stack(
            [logits[[i - 1 for i in row], ids[row]].sum() for row in (list(range(places[at][0], places[at][1] + 1)) for at in found.places)]
        )
        torch.testing.assert_close(side.logits.double(), expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(side.shares.sum(1).double() + side.missing.double(), expected, rtol=1e-5, atol=1e-4)
        assert float(side.missing.abs().max()) < 1e-5
    assert not any("do not add up" in note for note in found.notes)


def test_where_no_token_is_read_by_others_all_comes_from_the_last_one() -> None:
    """Without attention and MLP, the logit of a token comes from the token before it, whatever the picture is."""
    model, module, processor = made(llava_next)
    with torch.no_grad():
        for layer in module.model.language_model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    found = divided(model, asked(processor))
    result: Any = explainers.explain(model, asked(processor), methods="random")
    first = [place.tokens == (result.place.tokens[0],) * 2 for place in result.places if place.at in found.places]
    logits = found.original.logits
    torch.testing.assert_close(found.original.shares[:, 0], torch.zeros_like(logits))
    torch.testing.assert_close(found.original.logits, found.grey.logits)
    ids, embed = result.tensors["input_ids"][0], module.model.language_model.embed_tokens.weight
    start = result.place.tokens[0]
    with torch.no_grad():
        expected = module.lm_head(module.model.language_model.norm(embed[ids[start - 1]]))[ids[start]]
    assert float(found.original.shares[0, 1]) == pytest.approx(float(expected), rel=1e-4)  # of the answer's first token
    if first[0]:
        assert float(found.original.shares[0, 2]) == pytest.approx(0, abs=1e-5)
    torch.testing.assert_close(found.original.shares[1:, 2], logits[1:], rtol=1e-4, atol=1e-4)


def test_a_model_that_does_not_see_has_the_same_shares_for_any_picture() -> None:
    """All that its projector gives is a bias: the picture's tokens have a share, and none of it comes from pixels."""
    model, module, processor = made(llava_next)
    model.prepare(asked(processor))  # which finds where its tokens lie, while they change with the picture
    with torch.no_grad():
        module.model.multi_modal_projector.linear_2.weight.zero_()
        module.model.multi_modal_projector.linear_2.bias.normal_()
    one = divided(model, asked(processor))
    other = divided(model, asked(processor, Image.fromarray(255 - PIXELS)))
    assert one.answer == other.answer
    torch.testing.assert_close(one.original.shares, other.original.shares)
    torch.testing.assert_close(one.from_pixels, torch.zeros_like(one.from_pixels))
    assert float(one.original.shares[:, 0].abs().max()) > 0.1


def test_a_model_that_sees_has_other_shares_for_another_picture() -> None:
    model, _, processor = made(llava_next)
    prepared = model.prepare(asked(processor))
    other = process(processor, asked(processor).text, Image.fromarray(255 - PIXELS))["pixel_values"].double()
    one = divided(model, prepared)
    swapped = divided(model, Prepared({**prepared.tensors, "pixel_values": other}, prepared.inputs, prepared.notes))
    assert one.words == swapped.words
    assert float((one.original.shares[:, 0] - swapped.original.shares[:, 0]).abs().max()) > 0.1
    torch.testing.assert_close(one.grey.shares, swapped.grey.shares)


def test_it_is_printed_drawn_and_saved(tmp_path: Path) -> None:
    found = divided(picture_writer(), explainers.PicturePrompt(PICTURE_ASKED, "a good <image> film"))
    first = str(found).splitlines()[2]
    assert first.startswith(found.words[0])
    assert f"{float(found.original.shares[0, 0]):.2f}" in first
    bars = [patch.get_width() for patch in found.figure().axes[0].patches]
    assert bars[0] == pytest.approx(float(found.original.shares[0, 0]), abs=1e-5)
    assert len(bars) == 2 * found.original.shares.numel()
    found.save(tmp_path / "shares.json")
    assert json.loads((tmp_path / "shares.json").read_text())["parts"] == list(found.parts)
    found.save(tmp_path / "shares.svg")
    with pytest.raises(ExplainerError, match="end it in"):
        found.save(tmp_path / "shares.txt")


def test_the_command_prints_what_python_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, model = tmp_path / "llava", picture_writer()
    model.module.save_pretrained(folder)  # type: ignore[operator]
    model.task.tokenizer.save_pretrained(folder)  # type: ignore[union-attr]
    size = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "CLIPImageProcessor", **size}))
    PICTURE_ASKED.save(tmp_path / "picture.png")
    capsys.readouterr()
    question = ["prior-or-pixels", "a good film", "--image", str(tmp_path / "picture.png"), "--model", str(folder)]
    assert main([*question, "--json", "--out", str(tmp_path / "shares.png")]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = divided(str(folder), explainers.PicturePrompt(tmp_path / "picture.png", "a good film"))
    torch.testing.assert_close(torch.tensor(printed["original"]["shares"]), found.original.shares, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(torch.tensor(printed["grey"]["shares"]), found.grey.shares, rtol=1e-3, atol=1e-4)
    assert (tmp_path / "shares.png").stat().st_size
    question[3] = str(tmp_path / "none.png")
    assert main(question) == 2
    assert "there is no file" in capsys.readouterr().err


def test_a_classifier_writes_nothing() -> None:
    with pytest.raises(ExplainerError, match="writes nothing about pictures"):
        explainers.prior_or_pixels(image_model("vit"), explainers.PicturePrompt(PICTURE_ASKED, "a film"))


@pytest.mark.parametrize("name", PICTURE_ENCODERS)
def test_a_text_written_from_a_picture_alone_has_shares_that_add_up(name: str) -> None:
    square = explainers.Preprocessing((PICTURE_SIDE, PICTURE_SIDE), fit="squash")
    model = explainers.wrap(written_from_picture(name), tokenizer=words_of_writers(), preprocess=square, device="cpu")
    shares = explainers.prior_or_pixels(model, Image.effect_noise((50, 40), 90).convert("RGB"))
    assert shares.grey is not None
    assert shares.parts == ("picture", "start", "answer so far", "constant")
    assert float(shares.original.shares[0, 2]) == 0  # nothing was written before the first word
    assert bool((shares.original.shares[1:, 2] != 0).all())
    for side in (shares.original, shares.grey):
        torch.testing.assert_close(side.shares.sum(1), side.logits, rtol=1e-4, atol=1e-4)
