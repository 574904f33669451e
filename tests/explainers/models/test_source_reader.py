"""Writers of a text from a picture or a sound: their own logits and gradients, a full account, what changes at its place."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers
from explainers.errors import ExplainerError
from explainers.methods.registry import METHODS
from explainers.methods.requirements import missing_requirements, reason_against
from explainers.models.inputs.types import ANSWER, PICTURE, TEMPLATE, PicturePromptInput
from explainers.models.libraries.source_writers import start_of_sound
from explainers.models.structure.two_rows import DECODER_TOKENS
from tests.support.encoder_decoders import (
    PATCH_SIDE,
    PICTURE_ENCODERS,
    PICTURE_SIDE,
    SOUND_BANDS,
    SOUND_FRAMES,
    WRITTEN,
    picture_writer,
    sound_extractor,
    sound_writer,
    tokenizer,
)

# isort: split
import transformers as hf

SQUARE = explainers.Preprocessing((PICTURE_SIDE, PICTURE_SIDE), fit="squash")
SCAN = Image.effect_noise((50, 40), 90).convert("RGB")
ROWS = PICTURE_SIDE // PATCH_SIDE
#: Of each module: the tokens before its patches.
PREFIX = {"TrOCR": 1, "TrOCR, wider encoder": 1, "DeiT and BERT": 2, "ViT and GPT-2": 1}


def wrapped(name: str) -> explainers.Model:
    return explainers.wrap(picture_writer(name), name="writer", tokenizer=tokenizer(), preprocess=SQUARE, device="cpu")


def first_layers(module: Any) -> list[Any]:
    """The first layer of the encoder and that of the decoder, whose first arguments are the embedded tokens."""
    lists = [next(part for part in side.modules() if isinstance(part, torch.nn.ModuleList)) for side in (module.encoder, module.decoder)]
    return [layers[0] for layers in lists]


def explained(module: Any, tensors: Any, tokens: tuple[int, int]) -> Tensor:
    """The sum of the logits of the written ``tokens``, from the module's own output."""
    source, ids = int((tensors[DECODER_TOKENS] == 0).sum()), tensors["input_ids"][0]
    logits = module(pixel_values=tensors["pixel_values"], decoder_input_ids=ids[None, source:]).logits[0]
    return torch.stack([logits[i - 1 - source, ids[i]] for i in range(tokens[0], tokens[1] + 1)]).sum()


def products_in_float64(module: Any, tensors: Any, tokens: tuple[int, int]) -> Tensor:
    """Embedding times its gradient of all tokens of the encoder and then of the decoder, by torch alone."""
    exact, leaves = copy.deepcopy(module).double(), []

    def start(layer: Any, args: Any, kwargs: Any) -> Any:
        leaves.append(args[0].detach().clone().requires_grad_())
        return (leaves[-1], *args[1:]), kwargs

    handles = [layer.register_forward_pre_hook(start, with_kwargs=True) for layer in first_layers(exact)]
    number = explained(exact, {**tensors, "pixel_values": tensors["pixel_values"].double()}, tokens)
    for handle in handles:
        handle.remove()
    gradients = torch.autograd.grad(number, leaves)
    return torch.cat([(leaf * gradient).sum(-1)[0].detach() for leaf, gradient in zip(leaves, gradients, strict=True)])


@pytest.mark.parametrize("name", PICTURE_ENCODERS)
def test_numbers_are_those_of_the_plain_module(name: str) -> None:
    model = wrapped(name)
    module: Any = model.module
    result = explainers.explain(model, SCAN, methods=["input_x_gradient", "fullgrad:libra"])
    with torch.no_grad():
        expected = float(explained(module, result.tensors, result.place.tokens))
    assert result.target.logit == pytest.approx(expected, rel=1e-5)
    products = products_in_float64(module, result.tensors, result.place.tokens)
    scores = result["input_x_gradient"].scores.double()
    torch.testing.assert_close(scores, products, rtol=0, atol=1e-5 * float(products.abs().max()))
    assert float(result["fullgrad:libra"].scores.double().sum()) == pytest.approx(expected, rel=1e-4)
    assert result.completeness("libra") < 1e-3


@pytest.mark.parametrize("name", PICTURE_ENCODERS)
def test_the_answer_is_what_the_module_writes_and_its_words_are_explained(name: str) -> None:
    model = wrapped(name)
    module: Any = model.module
    result = explainers.explain(model, SCAN, methods="fullgrad:libra")
    with torch.no_grad():
        written = module.generate(pixel_values=result.tensors["pixel_values"], num_beams=1, do_sample=False)
    source = int((result.tensors[DECODER_TOKENS] == 0).sum())
    assert result.tensors["input_ids"][:, source:].tolist() == written.tolist()
    record = result.input
    assert isinstance(record, PicturePromptInput)
    assert (record.text, record.answer, record.grid, record.first) == ("", tokenizer().decode(written[0, 1:]), (ROWS, ROWS), PREFIX[name])
    assert [token.part for token in record.tokens] == [PICTURE] * source + [TEMPLATE] + [ANSWER] * WRITTEN
    last = [place for place in result.places if place.at.startswith("word:")][-1]
    of_word = explainers.explain(model, SCAN, methods="fullgrad:libra", at=last.at)
    attribution = of_word["fullgrad:libra"]
    assert [word.part for word in attribution.words()] == [ANSWER] * (len(result.places) - 3)  # without itself, the answer and its words
    patches = float(record.on_picture(attribution.scores).sum())
    special = sum(float(score) for score, token in zip(attribution.scores, of_word.input.tokens, strict=True) if token.special)
    words = sum(word.score for word in attribution.words())
    assert patches + words + special == pytest.approx(of_word.target.logit, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("name", PICTURE_ENCODERS)
def test_the_patch_that_changes_is_the_patch_that_is_drawn(name: str) -> None:
    model = wrapped(name)
    plain = model.tensors(SCAN)
    for row, column in ((0, 0), (1, 2), (ROWS - 1, 0)):
        pixels = plain["pixel_values"].clone()
        rows, columns = (slice(PATCH_SIDE * at, PATCH_SIDE * (at + 1)) for at in (row, column))
        pixels[..., rows, columns] += 1
        seen = []
        handle = model.entry.register_forward_pre_hook(lambda block, args, seen=seen: seen.append(args[0]))
        with torch.no_grad():
            for each in (plain["pixel_values"], pixels):
                model.forward({name: torch.cat([t, t[:, :1]], 1) if t.dim() == 2 else each for name, t in plain.items()})
        handle.remove()
        changed = (seen[0] != seen[1]).any(-1)[0].nonzero().flatten().tolist()
        record = model.prepare_input({"pixel_values": pixels}).inputs[0]
        assert isinstance(record, PicturePromptInput)
        shown = record.on_picture(torch.zeros(len(seen[0][0])).index_fill(0, torch.tensor(changed), 1.0))
        assert shown.nonzero().tolist() == [[row, column]]
        assert changed == [PREFIX[name] + row * ROWS + column]


def test_cross_attention_is_a_table_and_a_map() -> None:
    model = wrapped("TrOCR, wider encoder")
    result = explainers.explain(model, SCAN, methods="raw_attention")
    words = [place for place in result.places if place.at.startswith("word:")]
    table = explainers.answer_table(model, SCAN, "raw_attention")
    exact = copy.deepcopy(model.module).double()
    source, ids = int((result.tensors[DECODER_TOKENS] == 0).sum()), result.tensors["input_ids"]
    with torch.no_grad():
        out: Any = exact(  # type: ignore[operator]
            pixel_values=result.tensors["pixel_values"].double(), decoder_input_ids=ids[:, source:], output_attentions=True
        )
    across, among = out.cross_attentions[-1][0].mean(0), out.decoder_attentions[-1][0].mean(0)
    assert table.columns[0] == "(picture)"
    for row, place in enumerate(words):
        read = [token - 1 - source for token in range(place.tokens[0], place.tokens[1] + 1)]
        own = explainers.explain(model, SCAN, methods="raw_attention", at=place.at)
        expected = torch.cat([across[read].mean(0), among[read].mean(0)])
        torch.testing.assert_close(own["raw_attention"].scores.double(), expected, rtol=0, atol=1e-5)
        assert float(table.scores[row, 0]) == pytest.approx(float(across[read].mean(0)[1:].max()), rel=1e-4)


def test_relevance_of_two_rows_is_that_of_maps_with_an_axis_of_heads() -> None:
    """TrOCR's own attention has samples and heads in one axis; BERT's has one for each. The rule is the same by hand."""
    model = wrapped("TrOCR")
    result = explainers.explain(model, SCAN, methods="generic_attention")
    exact: Any = copy.deepcopy(model.module).double()
    exact.set_attn_implementation("eager")
    source, ids = int((result.tensors[DECODER_TOKENS] == 0).sum()), result.tensors["input_ids"]
    pixels = result.tensors["pixel_values"].double()
    out = exact(pixel_values=pixels, decoder_input_ids=ids[:, source:], output_attentions=True)
    first, last = result.place.tokens
    read = [token - 1 - source for token in range(first, last + 1)]
    number = torch.stack([out.logits[0, at, ids[0, token]] for at, token in zip(read, range(first, last + 1), strict=True)]).sum()
    groups = [list(out.encoder_attentions), list(out.decoder_attentions), list(out.cross_attentions)]
    gradients = iter(torch.autograd.grad(number, [each for group in groups for each in group]))
    encoder, own, cross = [[(a[0].detach() * next(gradients)[0]).clamp(min=0).mean(0) for a in group] for group in groups]
    eye_s, eye_t = torch.eye(source).double(), torch.eye(len(own[0])).double()
    r_ss, r_tt, r_ts = eye_s.clone(), eye_t.clone(), torch.zeros(len(eye_t), source).double()

    def rows_to_one(relevance: Tensor, eye: Tensor) -> Tensor:
        added = relevance - eye
        return torch.nan_to_num(added / added.sum(-1, keepdim=True)) + eye

    for a in encoder:
        r_ss += a @ r_ss
    for a, c in zip(own, cross, strict=True):
        r_ts, r_tt = r_ts + a @ r_ts, r_tt + a @ r_tt
        r_ts = r_ts + rows_to_one(r_tt, eye_t).T @ c @ rows_to_one(r_ss, eye_s)
    expected = torch.cat([r_ts[read].mean(0), (r_tt - eye_t)[read].mean(0)])
    torch.testing.assert_close(result["generic_attention"].scores.double(), expected, rtol=0, atol=1e-5 * float(expected.max()))


def test_a_hidden_patch_is_one_that_no_token_attends_to() -> None:
    """The encoder without the token at all gives the same, as its layers do not know where in the row a token lies."""
    model = wrapped("TrOCR")
    module: Any = model.module
    result = explainers.explain(model, SCAN, methods="occlusion")
    hidden = 1 + 6
    embedded = module.encoder.embeddings(result.tensors["pixel_values"])
    kept = torch.cat([embedded[:, :hidden], embedded[:, hidden + 1 :]], 1)
    with torch.no_grad():
        for layer in module.encoder.layers:
            kept = layer(kept, None)
        states = module.encoder.layernorm(kept)
        source, ids = int((result.tensors[DECODER_TOKENS] == 0).sum()), result.tensors["input_ids"][0]
        logits = module.decoder(input_ids=ids[None, source:], encoder_hidden_states=states).logits[0]
        first, last = result.place.tokens
        without = sum(float(logits[i - 1 - source, ids[i]]) for i in range(first, last + 1))
    assert float(result["occlusion"].scores[hidden]) == pytest.approx(result.target.logit - without, rel=1e-3, abs=1e-4)


def test_a_folder_opens_and_reads_a_picture_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "writer"
    picture_writer().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    hf.ViTImageProcessor(size={"height": PICTURE_SIDE, "width": PICTURE_SIDE}).save_pretrained(folder)
    model = explainers.open(folder, device="cpu")
    assert model.report is not None
    assert [check.name for check in model.report.checks if check.state == "failed"] == []
    assert (model.kind, model.reads) == ("text", ("picture",))
    assert "pictures alone, one at a time: a text is written from each" in str(model.report)
    assert explainers.wrap(model.module, kind=["picture"], tokenizer=tokenizer(), preprocess=SQUARE).reads == ("picture",)
    SCAN.save(tmp_path / "scan.png")
    given = [SCAN, tmp_path / "scan.png", explainers.PicturePrompt(SCAN, ""), [SCAN], model.tensors(SCAN)]
    answers = [model.prepare(each).tensors["input_ids"].tolist() for each in given]
    assert all(answer == answers[0] for answer in answers)
    again = explainers.explain(model, explainers.explain(model, SCAN, methods="random").tensors, methods="random")
    assert again.tensors["input_ids"].tolist() == answers[0]
    with pytest.raises(ExplainerError, match="a text was sent with it: leave the text out"):
        model.prepare(explainers.PicturePrompt(SCAN, "What is written?"))
    for several in ([SCAN, SCAN], explainers.PicturePrompt([SCAN, SCAN], "")):
        with pytest.raises(ExplainerError, match="one picture or sound at a time, and 2 were sent: send them one by one"):
            model.prepare(several)


@pytest.mark.parametrize("name", PICTURE_ENCODERS)
def test_what_runs_is_known_before_anything_is_asked(name: str) -> None:
    model = wrapped(name)
    lacks = missing_requirements(model)
    assert "rollout" in METHODS
    assert reason_against(METHODS["rollout"], lacks) is not None
    assert [reason_against(METHODS[each], lacks) for each in ("raw_attention", "generic_attention", "fullgrad", "occlusion")] == [None] * 4


def test_an_encoder_whose_tokens_are_no_patches_of_one_size_is_refused() -> None:
    encoder = hf.DonutSwinConfig(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[1, 2], window_size=4)
    decoder = hf.TrOCRConfig(d_model=32, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=32, vocab_size=len(tokenizer()))
    module = hf.VisionEncoderDecoderModel(hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)).eval()
    with pytest.raises(ExplainerError, match=r"a DonutSwinModel, makes 16 tokens, which are no grid of patches.*DeiT, BEiT"):
        explainers.wrap(module, tokenizer=tokenizer(), preprocess=SQUARE, device="cpu")


#: What a Whisper of several languages knows, and settings with which it begins in another way.
SEVERAL: dict[str, Any] = {
    "lang_to_id": {"<|en|>": 8, "<|de|>": 9},
    "task_to_id": {"transcribe": 10, "translate": 11},
    "is_multilingual": True,
}
STARTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "hears its language": {**SEVERAL, "no_timestamps_token_id": 12},
    "told its language": {**SEVERAL, "no_timestamps_token_id": 12, "language": "de"},
    "told its language by name": {**SEVERAL, "no_timestamps_token_id": 12, "language": "German"},
    "translates": {**SEVERAL, "no_timestamps_token_id": 12, "language": "<|en|>", "task": "translate"},
    "forced task": {**SEVERAL, "forced_decoder_ids": [[1, None], [2, 10]]},
    "forced all": {"no_timestamps_token_id": 12, "forced_decoder_ids": [[1, 12]]},
}
SOUND = explainers.Sound(np.sin(np.arange(14000) ** 1.3 / 200).astype(np.float32), 16000)


def sound_model(**more: Any) -> explainers.Model:
    return explainers.wrap(sound_writer(**more), name="writer", tokenizer=tokenizer(), preprocess=sound_extractor(), device="cpu")


@pytest.mark.parametrize("name", STARTS)
def test_a_sound_is_begun_as_transformers_begins_it(name: str) -> None:
    module = sound_writer(**STARTS[name])
    pixels = torch.randn(1, 1, SOUND_BANDS, SOUND_FRAMES)
    settings = copy.deepcopy(module.generation_config)
    settings.return_timestamps = False
    features = pixels[:, 0].flip(1)
    theirs = module._retrieve_init_tokens(features, 1, settings, module.config, SOUND_FRAMES, {})[0].tolist()
    assert start_of_sound(module, {"pixel_values": pixels}) == theirs


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({**SEVERAL, "language": "Martian"}, r"begins no answer \(.*martian.*generation_config\.language"),
        ({"language": "english"}, r"generation_config\.language is set, and this model knows none"),
        ({**SEVERAL, "task": "sing"}, r"begins no answer \(.*sing.*generation_config\.task"),
    ],
)
def test_a_language_or_task_that_a_writer_from_sounds_does_not_know_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        start_of_sound(sound_writer(**settings), {"pixel_values": torch.randn(1, 1, SOUND_BANDS, SOUND_FRAMES)})


@pytest.mark.parametrize("name", ["plain", "hears its language"])
def test_words_written_from_a_sound_have_the_numbers_of_the_plain_module(name: str) -> None:
    model = sound_model(**STARTS[name])
    module: Any = model.module
    result = explainers.explain(model, SOUND, methods=["input_x_gradient", "fullgrad:libra", "raw_attention"])
    record = result.input
    assert isinstance(record, PicturePromptInput)
    assert (record.grid, record.first, record.picture_names) == ((1, SOUND_FRAMES // 2), 0, ("sound",))
    assert model.reads == ("sound",)
    exact, leaves = copy.deepcopy(module).double(), []
    exact.set_attn_implementation("eager")
    spectrogram = sound_extractor()(SOUND.samples, sampling_rate=16000, return_tensors="pt").input_features.double()
    source, ids, (first, last) = SOUND_FRAMES // 2, result.tensors["input_ids"], result.place.tokens

    def start(layer: Any, args: Any, kwargs: Any) -> Any:
        leaves.append(args[0].detach().clone().requires_grad_())
        return (leaves[-1], *args[1:]), kwargs

    for stack in (exact.model.encoder, exact.model.decoder):
        stack.layers[0].register_forward_pre_hook(start, with_kwargs=True)
    out = exact(input_features=spectrogram, decoder_input_ids=ids[:, source:], output_attentions=True)
    read = [i - 1 - source for i in range(first, last + 1)]
    number = out.logits[0, read, ids[0, first : last + 1]].sum()
    assert result.target.logit == pytest.approx(float(number.detach()), rel=1e-5)
    gradients = torch.autograd.grad(number, leaves)
    products = torch.cat([(leaf * gradient).sum(-1)[0].detach() for leaf, gradient in zip(leaves, gradients, strict=True)])
    torch.testing.assert_close(result["input_x_gradient"].scores.double(), products, rtol=0, atol=1e-5 * float(products.abs().max()))
    assert float(result["fullgrad:libra"].scores.double().sum()) == pytest.approx(float(number.detach()), rel=1e-4)
    across, among = out.cross_attentions[-1][0].mean(0).detach(), out.decoder_attentions[-1][0].mean(0).detach()
    expected = torch.cat([across[read].mean(0), among[read].mean(0)])
    torch.testing.assert_close(result["raw_attention"].scores.double(), expected, rtol=0, atol=1e-5)
    begins = len(start_of_sound(module, result.tensors))
    with torch.no_grad():
        for at in range(source + begins, ids.shape[1]):  # the likeliest token each time
            logits = module(input_features=spectrogram.float(), decoder_input_ids=ids[:, source:at]).logits
            assert int(logits[0, -1].argmax()) == int(ids[0, at])


def test_the_stretch_of_a_sound_that_changes_is_the_stretch_that_is_drawn() -> None:
    model = sound_model()
    plain = model.tensors(SOUND)
    for stretch in (0, 20, SOUND_FRAMES // 2 - 1):
        pixels = plain["pixel_values"].clone()
        pixels[..., 2 * stretch : 2 * stretch + 2] += 1
        seen = []
        handle = model.entry.register_forward_pre_hook(lambda block, args, seen=seen: seen.append(args[0]))
        with torch.no_grad():
            for each in (plain["pixel_values"], pixels):
                model.forward({name: torch.cat([t, t[:, :1]], 1) if t.dim() == 2 else each for name, t in plain.items()})
        handle.remove()
        touched = (seen[0] != seen[1]).any(-1)[0].nonzero().flatten().tolist()
        # a token reads the two frames of its stretch, and by two convolutions of three frames two before and one after them
        assert touched == [at for at in range(SOUND_FRAMES // 2) if set(range(2 * at - 2, 2 * at + 3)) & {2 * stretch, 2 * stretch + 1}]


def test_a_picture_is_no_sound() -> None:
    with pytest.raises(ExplainerError, match="this model takes sounds, not pictures"):
        sound_model().prepare(SCAN)
