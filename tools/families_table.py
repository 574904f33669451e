"""The table of families, made by running each: ``python -m tools.families_table`` writes ``docs/families.md`` again.

Models are tiny, with random weights; what is measured is whether the account is right, not whether the map is good.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.methods import METHODS
from explainers.methods.requirements import missing_requirements, variants
from explainers.models.model import Model
from explainers.models.structure.block_kinds import BLOCK_KINDS
from explainers.self_check.checks import FEW_RUNS
from tests.explainers.support.wrapped import inputs, read, trace_of, wrapped
from tests.families import FAMILIES, Family
from tests.support.vocabularies import wordpiece
from tools.refusals import as_lists
from vitrine_server.commands.text_tables import markdown_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "families.md"
TEXT = "not a good film ."
NEEDS = {
    "attention": "attention over all tokens in every block",
    "one_attention": "no block that attends several times, one after the other",
    "token_order": "tokens that keep their places from block to block",
    "places": "of images, tokens that are of places in the picture, and no latents that read all of it",
    "inner_order": "tokens that keep their places inside the blocks",
    "product": "tokens that are handed on from block to block, or thrown away for constants",
    "own_tokens": "blocks that put no other tokens in the places of their own",
    "class_token": "one token that the head reads",
    "residual": "attention that is added to a residual stream",
    "positions": "of images, position embeddings added to the patches before the blocks",
    "prompts": "pictures compared with prompts by a cosine",
    "boxes": "boxes with a class each: detectors",
    "mask_token": "of texts, a tokenizer with a mask token to hide words with",
    "parts": "attention whose queries, keys, values and output projection can be read in the last block",
    "scores": "attention weights that are one softmax of scores as they meet the values, in every block",
    "attention_input": "attention whose queries, keys and values are linear maps of one row of tokens, in every block",
    "image": "an image",
    "patch_features": "of images compared with prompts, a head that reads a class token, in whose place a patch can be put",
}
#: The models that are not explained, or not fully, and what happens with them.
SHORTCOMINGS = (
    (
        "class token joined after the blocks (CaiT, XCiT, VOLO)",
        "The row is read in the class attention after the blocks: raw attention, Grad-CAM on attention, Partial LRP, Grad-ECLIP and "
        "Transformer Attribution's last block there; rollout, attention flow, Generic Attention, TokenTM and Transformer Attribution "
        "through all blocks, of XCiT refused, whose own attention is over channels; GlobEnc and ALTI through all blocks, of XCiT too, "
        "where convolutions bring patches together. Transformer Attribution from the second block is refused: the token is not yet "
        "there. `row=mean` starts from all patches of the blocks before it.",
    ),
    (
        "stages before the last",
        "The blocks are those of the last stage, and maps have its patches. `wrap(model, blocks=...)` takes an earlier "
        "stage, unless its tokens lie in another order than the picture (Hiera's), which is refused.",
    ),
    (
        "several attentions in a block",
        "All are read. What is added to the residual stream at once, in parallel branches, head by head or as a difference of two "
        "softmaxes (before or after they meet the same values), is one map, branches as heads of it, and a note says so where there are "
        "several products. "
        "What follows on another's residual stream is a map of its own: rollout, attention flow, Generic Attention and Transformer "
        "Attribution multiply all maps, and what pairs a map with what its block gives (AttCAT, LeGrad, TokenTM, GlobEnc, ALTI, "
        "Transformer Attribution's second block) is refused.",
    ),
    (
        "attention in another order of axes or tokens",
        "Found in a trial pass, and read in the order of the tokens: keys or values first, tokens sorted or shuffled inside attention, "
        "heads in a loop or next to the samples, queries in chunks, also head by head where the chunks of a head have the same values, "
        "windows.",
    ),
    (
        "attention weights that are changed after their softmax, or shared (talking heads, DeepViT, ConViT)",
        "A map is of the weights that meet the values: of heads that were mixed, scaled, gated or joined what came of it, also where it is "
        "negative or its rows do not sum to 1. Gradients and relevance are those at these weights. Heads that share weights are one. "
        "Several maps that a gate of the data mixes before they meet values, as (1 - g) A + g B, are attention weights with their gate; "
        "the weights by which a router chooses heads are held as gates are.",
    ),
    (
        "attention that is no map over all tokens",
        "What reads attention is refused, with the reason, and gradients go on: values or outputs made of several tokens, weights that "
        "meet values one by one or are multiplied with others first, values that are also "
        "added beside their attention (v − A v), sigmoid attention or exponentials whose sum divides what they gave, "
        "linear attention, complex values or weights, no residual round attention, or round the second of two: 8 of the 41 forms in "
        "`test_attention_trial.py`, and 11 next to the 40 that are read in `test_attention_maps.py`. No row above is among them. ViT-CX "
        "groups the tokens that enter the last block there, and a note says so.",
    ),
    (
        "attention that is joined to the residual stream by no sum of two tensors",
        "What reads the stream after attention (TokenTM, GlobEnc, ALTI, CLIP decomposition) is refused where a pool, a linear layer over "
        "both or a sum of parts joins them, and where something stands between attention and MLP that is no norm which can be read; sums "
        "in other words are sums. Relevance follows the rule of what joins them.",
    ),
    (
        "a softmax written in other ways",
        "Exponentials over their sum are the softmax that they are, also by a log-softmax, by the logarithm of a sum, by powers of two, "
        "by an inverse or by `F.normalize`: all rules and maps are those of the plain form. Scores of complex queries and keys are scores; "
        "rules that divide them among queries and keys take the gradient there, with a note. What a sparsemax that is written out gives is "
        "held constant where attention is, and what reads attention maps is refused.",
    ),
    (
        "what tokens give in a block does not add up (numbers padded into values, values of an earlier block)",
        "GlobEnc and ALTI are refused, with how much is missing. Of every input they check that what all tokens and all constants give to "
        "the stream after attention is that stream, and that the real input gives the stream of an ordinary pass. No row above is among "
        "them. DecompX says in a note by how much it misses its number.",
    ),
    (
        "a mean, a sum, a pool or an index that is written as a product with a constant matrix",
        "Where the numbers that an output joins have one positive weight, the rules are those of the mean, the pool or the index.",
    ),
    (
        "inner rows that are flattened, lie before the samples, are sorted or go to experts (GPT-2, fairseq's layers)",
        "FullGrad's bias terms stand at the token that each row is of, which is found in every pass, also where rows of several tokens (a "
        "mean, neighbours) lie next to them, whose terms are of no token. What propagates single tokens "
        "(GlobEnc, ALTI, DecompX) is refused where samples do not come first, or where experts get some tokens alone; GlobEnc and ALTI "
        "where class attention after the blocks projects some of its tokens apart. The biases of hidden "
        "units of an MLP over tokens are of no token, however many units it has.",
    ),
    (
        "attention and an MLP added to the stream in parallel (GPT-J, GPT-NeoX, Falcon, ViT-22B)",
        "Added in one expression, in any order, they are read as (x + attention) + MLP. What reads the stream after attention (TokenTM, "
        "GlobEnc, ALTI) is refused where one layer makes both, where they are scaled together, or where the MLP is added in a step before "
        "attention, since there is no such stream.",
    ),
    (
        "a last block that gives the class token alone",
        "Of another class than the others it is refused, with the blocks that can be read: `blocks=list(model.blocks[:-1])`; of the same "
        "class it is left out. What it gives is then part of the head, and notes say that attention follows and that the head reads all "
        "tokens.",
    ),
    (
        "tokens that join before a later block of the same list",
        "The blocks are the longest row of them with one number of tokens. A note says how many of the list run before them and after "
        "them; FullGrad's biases after them stand at the patches where they act. `blocks=` reads the others.",
    ),
    (
        "sums of tensors whose samples lie along another axis than the first, or are flattened",
        "The relevance of a sum is shared within each sample (deep Taylor, Transformer Attribution): two gradients tell which numbers "
        "belong to which. Where they do not, several inputs at once are refused, as they are where a linear layer embeds the patches of "
        "several pictures in rows; one input at a time runs.",
    ),
    (
        "tokens that change places between blocks or in them",
        "What reads later blocks than the first is refused, and what reads the tokens that enter it runs. Tokens that layers other "
        "than attention mix in a block are taken to keep their places.",
    ),
    (
        "tokens that come together by something else than attention (a convolution, layer, mean or Fourier transform over tokens)",
        "Found in the trial pass: what reads attention says in a note that it leaves this out, or is refused where it stands before the "
        "queries or between attention and the stream. Less than a hundredth of what a token holds is not seen.",
    ),
    (
        "tokens that are thrown away between blocks or in them (a class token or prompts of its own for each block, mask tokens, rows "
        "times 0)",
        "Found in a trial pass, and in each pass of such a model: what is multiplied over the blocks (rollout, attention flow, Generic "
        "Attention, TokenTM, Transformer Attribution, GlobEnc, ALTI) ends there. Refused are all of these where what stands in their "
        "places comes from the input by another way, where a block attends several times and throws tokens away inside, and where a "
        "detach cannot be told from it; GlobEnc and ALTI where a block puts other tokens or values in the places of its own. What reads "
        "tokens by their places says in a note where others stand in those of patches or words.",
    ),
    (
        "patches beside their places (a picture that the forward shifts or crops)",
        "Refused when the model is opened if patches that do not overlap lie a quarter of a patch or more from where they are drawn; a "
        "note on the map says so where a rest at the lower and right edges is cut off, by which they are drawn too large. Nothing is "
        "known of patches that overlap.",
    ),
    (
        "tokens that are made of other pixels than the squares at which they are drawn (strips of rows, every n-th pixel, a map reshaped "
        "without a transpose, frequencies, the whole picture)",
        "Found when the model is opened, by noise and the gradients of some tokens: what draws tokens at places is refused, and what "
        "hides parts of the picture runs, and `at=pixels`. Stems that overlap are drawn as ever. A note says how much of what tokens read "
        "lies where they are drawn if it is little, as after a wide blur, or many layers that bring the whole picture together. No row "
        "above is among them.",
    ),
    (
        "tokens out of the order of the picture or the text",
        "Refused when the model is opened, by noise laid over the picture and words changed one by one. Where layers before the blocks "
        "bring patches together, a few of them out of order may be missed, and nothing is seen after many layers of random weights.",
    ),
    (
        "texts whose model reads more tokens than the text has",
        "Each token of the text is changed alone, and each further one moved alone, once for each length. A second token of a word counts "
        "for the word. Tokens of the model's own (memory, prompts, padding that it does not mask, also in the place of a word) and those "
        "made of several words are real tokens, whose share of a map is not the words': a note says how much it is. What does not change "
        "the answer is padding. Tokens of its own before the words are refused when the model is opened.",
    ),
    (
        "words that come together before the blocks (a convolution, a recurrent layer or attention over the embeddings)",
        "Found when the model is opened, by words changed one by one: what reads tokens says in a note how much of what moves a token is "
        "its own word. Where a word moves another token more than twice as far as its own, the model is refused. Less than a hundredth is "
        "not seen.",
    ),
    (
        "functions that torch cannot differentiate (igamma, zeta)",
        "What reads gradients or relevance through them is refused, and the function is named. `torch.heaviside` is a constant but at 0, "
        "and counts as one, as a comparison does; where it writes in place (`heaviside_`) it is refused.",
    ),
    (
        "blocks that take channels before tokens, (batch, width, tokens)",
        "Refused when the model is opened, whatever the number of channels, and also where each block transposes at once what it takes: "
        "the same noise shows which axis is of places. Blocks that take and give (batch, tokens, width) run, with channels first inside "
        "too.",
    ),
    (
        "position biases of attention (Swin, BEiT, DeBERTa)",
        "They stand on the scores, and are additive terms of no token: FullGrad does not count them. Under Libra they have no "
        "signal, and its account is whole without them.",
    ),
    (
        "linear attention (EfficientViT)",
        "Queries times the product of keys and values, over a normaliser of queries and keys: the rules of attention hold, as if the "
        "weights had been made, and the normaliser is constant where weights are, else a normalisation. No attention map is read. "
        "Where queries and keys are multiplied first, all this is the same.",
    ),
    (
        "MobileViT, EdgeNeXt",
        "Their Transformers take patches in groups out of order; the blocks are those of the last stage that keeps the map. "
        "Mobile ViT v2 has no other, and is refused with the groups it takes.",
    ),
    *(kind.falls_short for kind in BLOCK_KINDS.values() if kind.falls_short is not None),
    (
        "other streams around the blocks",
        "Refused: a model that sees the image on a way round its blocks, for then no map of their tokens accounts for the answer; one "
        "that runs its blocks more than once on the image (a mean over it and its mirror); one whose blocks take two streams of tokens "
        "as two tensors (reversible networks). Each is refused with its reason.",
    ),
    (
        "convolutions around a Transformer",
        "The blocks are those of the Transformer, however many blocks of convolutions run before or after it.",
    ),
    (
        "convolutional networks without a list of blocks (VGG, DenseNet, RegNet)",
        "RegNet's blocks have names of their own and are found; of the others, the last layer that keeps the shape of its map.",
    ),
    (
        "class token next to a map of patches (PiT, CoaT)",
        "Refused: the tokens do not fill the image.",
    ),
)
HEADINGS = (
    "family",
    "package",
    "kind",
    "blocks",
    "FullGrad, gradient",
    "FullGrad, Libra",
    "Libra, float32",
    "deep Taylor",
    "LRP",
    "rules",
    "methods",
    "lacks",
)


@dataclass(frozen=True)
class Row:
    """The measurements of one family.

    Errors are relative to the largest logit; sums of relevance would be 1 if all of it arrived.

    lacks   what methods may need and this model lacks, in the words of ``NEEDS``
    """

    name: str
    package: str
    kind: str
    blocks: str
    gradient: float
    libra: float
    libra32: float
    deep_taylor: float
    lrp: float
    rules: str
    methods: str
    lacks: str

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row as text."""
        errors = (f"{error:.0e}" for error in (self.gradient, self.libra, self.libra32))
        sums = (f"{self.deep_taylor:.4g}", f"{self.lrp:.2g}")
        return (f"`{self.name}`", self.package, self.kind, f"`{self.blocks}`", *errors, *sums, self.rules, self.methods, self.lacks)


def completeness(name: str, rule: str, dtype: torch.dtype = torch.float64) -> float:
    """Return the largest error of FullGrad's account for the family ``name`` under ``rule`` over two samples and all classes, computed in
    ``dtype``, relative to the largest logit.
    """
    recording = Recording(wrapped(name, dtype), inputs(name, 2, dtype))
    logits = recording.logits.detach()
    errors = [
        read(recording, "fullgrad", rule, target).sum(1) + trace_of(recording, rule, target).unplaced - logits[:, target]
        for target in range(logits.shape[1])
    ]
    return float(torch.stack(errors).abs().max() / logits.abs().max())


def arriving_relevance(name: str, rule: str) -> float:
    """Return the relevance of the family ``name`` under ``rule`` that arrives at the embedded tokens, and at constants on the way, out of 1
    that starts at a class: mean of two samples.
    """
    signals = trace_of(Recording(wrapped(name), inputs(name)), rule).signals
    return float((signals.block_inputs[0].sum((1, 2)) + signals.bias.sum(1) + signals.unplaced).mean())


def without_rule(name: str) -> str:
    """Return "all" and the number of rules, or the functions of the model of family ``name`` through which some rule has only the ordinary
    gradient.
    """
    recording = Recording(wrapped(name), inputs(name))
    lacking = {rule: trace_of(recording, rule).signals.unruled for rule in RULES}
    named = sorted(set().union(*lacking.values()))
    return f"all {len(RULES)}" if not named else f"ordinary gradient through {', '.join(named)}"


def run_methods(family: Family) -> tuple[int, Model]:
    """Run each method with every rule it takes on the model of ``family``; return how many methods there are, all with finite maps, and the
    model.
    """
    tokenizer = {} if family.kind == "image" else {"tokenizer": wordpiece(16)}
    model = explainers.wrap(family.build(), **tokenizer)
    specs = {v.method_name: [] for v in variants(model) if v.reason is None}
    for v in variants(model):
        if v.reason is None:
            specs[v.method_name].append(f"{v.spec}?{FEW_RUNS[v.method_name]}" if v.method_name in FEW_RUNS else v.spec)
    tensors: dict[str, Tensor] = family.inputs(1)
    given = TEXT if family.kind == "text" else {"pixel_values": tensors["pixel_values"]}
    target = "a good film" if family.kind == "clip" else 1
    prompts = [target, "not a good film"] if family.kind == "clip" else None  # of a prompt alone the probability is always 1
    methods = [spec for listed in specs.values() for spec in listed]
    explained = explainers.explain(model, given, target=target, methods=methods, prompts=prompts)
    result = explained[0] if isinstance(explained, list) else explained
    assert all(bool(one.scores.isfinite().all()) for one in result.maps)
    return len(specs), model


def measure(name: str) -> Row:
    """Measure the family ``name`` and return its row."""
    family = FAMILIES[name]
    runs, model = run_methods(family)
    expected = {"image": {"image"}, "text": set[str](), "clip": {"image", "patch_features", "prompts"}}[family.kind]
    other = {"image", "patch_features", "prompts", "boxes"} - expected  # what nobody expects of it
    return Row(
        name=name,
        package=family.library,
        kind=family.kind,
        blocks=family.blocks[0].rpartition(".")[0],
        gradient=completeness(name, "gradient"),
        libra=completeness(name, "libra"),
        libra32=completeness(name, "libra", torch.float32),
        deep_taylor=arriving_relevance(name, "deep_taylor"),
        lrp=arriving_relevance(name, "lrp"),
        rules=without_rule(name),
        methods=f"{runs} of {sum(not (method.needs & other) for method in METHODS.values())}",
        lacks=", ".join(need.replace("_", " ") for need in NEEDS if need in missing_requirements(model) and need not in other),
    )


def page(rows: list[Row]) -> str:
    """Return the text of ``docs/families.md`` with these ``rows``."""
    needed = [
        (need.replace("_", " "), meaning, ", ".join(f"`{m.name}`" for m in METHODS.values() if need in m.needs))
        for need, meaning in NEEDS.items()
    ]
    return f"""# Families

What Vitrine can explain, measured on tiny models of each family with random weights: `python -m tools.families_table` runs them all and
writes this page. No line of the engine is about one of them.

- **blocks**: what `wrap` took as the blocks. Of a model with stages, those over the patches that the head reads.
- **FullGrad**: largest difference between a logit and the sum of all of FullGrad's terms, over two inputs and all classes, relative to the
  largest logit: under the ordinary gradient, which promises nothing, and under Libra, which promises 0; in float64, the third in float32.
- **deep Taylor**, **LRP**: relevance that arrives at the embedded tokens, and at constants on the way, of 1 that starts at the logit. Deep
  Taylor loses what reaches an output with no pair of positive product; the LRP baseline does not conserve relevance.
- **rules**: whether every operator has its rule under all {len(RULES)} of them.
- **methods**: how many run, each with every rule it takes, of those that need no prompts or images where there are none; the rest need what
  the last column says the model lacks.

{markdown_table(HEADINGS, [row.cells() for row in rows])}

A method that needs what a model lacks says so and does not run:

{markdown_table(("lacks", "needed is", "by"), needed)}

## What is refused, and what falls short

{markdown_table(("models", "what happens"), SHORTCOMINGS)}

## The words of refusals

Every reason on attention and on the order and the places of tokens that the code can give, collected from it; … is filled in.

{as_lists()}
"""


def main() -> None:
    """Measure all families, and write the page."""
    rows = []
    for name in FAMILIES:
        print(name, file=sys.stderr)
        rows.append(measure(name))
    PAGE.write_text(page(rows), "utf-8")


if __name__ == "__main__":
    main()
