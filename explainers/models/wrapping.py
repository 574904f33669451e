"""``wrap``: from any classifier of timm or transformers, or one written with torch, to a :class:`Model`; no line is about one model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError, ran_out_of_memory
from explainers.models import labels as naming
from explainers.models.details import BLOCKS_LEFT_OUT, details_of
from explainers.models.eval_mode import evaluating, with_gradients, without_compilation
from explainers.models.first_pass import FirstPass
from explainers.models.input_readers import InputReaders, input_readers
from explainers.models.inputs.molecules import MoleculeReader
from explainers.models.inputs.parts import KindArgument, check_reads
from explainers.models.inputs.types import Input, ModelKind, Prepared, Side
from explainers.models.layout import Layout
from explainers.models.libraries import calls
from explainers.models.libraries import recognition as lib
from explainers.models.libraries.sound_models import as_model_of_pictures, reads_sounds
from explainers.models.libraries.words_and_patches import WordsAndPatches, reads_words_and_patches
from explainers.models.model import Model
from explainers.models.outputs import (
    OUTPUTS,
    FinalActivation,
    Forward,
    HeadActivation,
    Output,
    before_final_activation,
    like_probabilities,
    logits_of,
    output_of,
    yes_and_no,
)
from explainers.models.padding import CHANGED_BY_PADDING, is_changed_by_padding
from explainers.models.placement import placed
from explainers.models.preparing import Prompts, prepare_images, prepare_windows
from explainers.models.source_reader import SourceReader
from explainers.models.structure import blocks as rows
from explainers.models.structure.content_order import check_of_inputs
from explainers.models.structure.layouts import LayoutOf, image_layout, text_layout
from explainers.models.structure.repeating import why_not_repeatable
from explainers.models.structure.two_rows import TwoRows, source_of, two_rows_of
from explainers.models.structure.watching import reads_words_twice
from explainers.models.structure.word_places import WordPlaces, find_word_places
from explainers.models.tangent import by_tangent, find_tail
from explainers.models.tasks import GeneratedAnswer, Task
from explainers.models.tasks.own_boxes import BoxesFunction, OwnBoxes
from explainers.models.tasks.prompted_boxes import THE_TEXT, BoxesByTexts, PromptedBoxes, WordsOfBoxes, blocks_of_tower
from explainers.models.tasks.several_heads import SeveralHeads


@with_gradients()
@without_compilation()
def wrap(
    module: nn.Module,
    *,
    name: str | None = None,
    kind: KindArgument | None = None,
    blocks: str | Sequence[nn.Module] | None = None,
    entry: str | nn.Module | None = None,
    labels: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    preprocess: Any = None,
    tokenizer: Any = None,
    reader: str | MoleculeReader | None = None,
    prefix: int | None = None,
    side: Side = "image",
    output: Output | None = None,
    head: str | int | None = None,
    task: str | None = None,
    boxes: BoxesFunction | None = None,
    picture: Any = None,
    device: str | torch.device | None = None,
) -> Model:
    """Make a :class:`Model` of ``module``: find its blocks, the order of its tokens, its preprocessing and its labels.

    A few trial passes are made with random input, in eval mode; the module is not changed, except by ``device``. If its output passes a
    softmax or a sigmoid last (and is perhaps reshaped or cast afterwards), the numbers before that are its logits. If outputs look like
    probabilities and no such function can be removed, every explanation has a note.

    kind        what the model reads, a list of "picture", "video", "sound", "text" and "molecule"; also "image", "text", "clip" (a picture
                and texts that it compares) or "molecule". None: found out
    blocks      the Transformer blocks, or the dotted name of the list that holds them
    entry       the module, or its dotted name, whose first argument is x^1, the embedded tokens
    labels      names of the classes, in the order of the logits; for a model with several outputs, a dict from output to names
    preprocess  a :class:`Preprocessing`, an image processor of transformers, a transform of torchvision or timm, or a function from a
                PIL image to a tensor (channels, height, width), whose cropping is found out by trying it; for a model of sounds, a
                feature extractor of transformers
    tokenizer   a transformers tokenizer
    reader      for a model of molecules, how they become tensors: the name of a reader that :func:`explainers.add_molecule_reader`
                declared, or a function; None: features of atoms, bonds and distances, see `explainers.models.inputs.molecule_graphs`
    prefix      number of tokens before the first patch, word or atom
    side        for a CLIP model, the tower that is explained, to which ``blocks``, ``entry`` and ``prefix`` then refer
    output      what the logits mean: "softmax", one class of several; "sigmoid", each label yes or no on its own, and for one logit the
                classes yes and no; "regression", values. None: found out
    head        for a model with several outputs in a tuple or dict, the index or the key of the one to explain; None: each is a place that
                ``explain(at=)`` can name
    task        the kind of its output if that is not one row of logits for each sample, one of :data:`explainers.TASKS`; None: found out
    boxes       for a detector of any library, a function from what the module gives for one picture (1, C, height, width) to its boxes,
                corners x0, y0, x1, y1 in pixels (N, 4), and their scores (N, classes); see docs/tasks.md
    picture     for a detector that is asked with texts, a picture that stays as it is while the words of a text are explained; None: the
                picture is explained, and ``labels`` are the texts
    device      where to move the module; None leaves it where it is

    Raises ExplainerError, naming the argument to pass, for anything that cannot be found out.
    """
    module, kind_by_caller = _trainable(module), kind
    kind = None if kind is None else lib.kind_asked(module, kind)
    module, preprocess, name = _adapted(module, preprocess, name)
    arguments = {
        "name": name,
        "kind": kind,
        "blocks": blocks,
        "entry": entry,
        "labels": labels,
        "preprocess": preprocess,
        "tokenizer": tokenizer,
        "reader": reader,
        "prefix": prefix,
        "side": side,
        "output": output,
        "head": head,
        "task": task,
        "boxes": boxes,
        "picture": picture,
    }
    module = placed(module, device)
    library = lib.library_of(module)
    kind, given, blocks = _known_task(module, kind, arguments, blocks)
    if side == "text" and kind != "clip":
        raise ExplainerError('side="text" is for models that compare images with texts; leave it out')
    readers = input_readers(module, library, kind, preprocess, tokenizer, reader)
    words, sample, first = readers.words, readers.sample, readers.first
    reads_text = kind not in ("image", "clip") or side == "text"
    two_rows, own_forward = _forwards(module, library, kind, side, head, first if blocks is None else {})
    first_pass = FirstPass(module, library, own_forward, task, None if words is None else words.tokenizer, two_rows, given)
    if kind in ("clip", "molecule") or head is not None:
        first_pass.settle(None)
    elif not reads_text and (library == "transformers" or task is not None):
        first_pass.try_one(first)  # two pictures are tried, and a task is told by what the model gives for one

    tried = first if reads_text else sample
    structure, answers, head_activation = first_pass.told_by(
        lambda: _explore(
            two_rows or module, kind, side, first_pass, tried, *first_pass.blocks_and_entry(blocks, entry), lambda: first_pass.first_row
        ),
        first,
    )
    its_task, raw, run, first_row = first_pass.task, first_pass.raw, first_pass.run, first_pass.first_row
    labels = _plain_labels(its_task, labels)
    if its_task is not None:
        head_activation = HeadActivation()  # each place has numbers of its own
    run = run if head_activation.kind is None else before_final_activation(run)
    if kind != "clip" and its_task is None and answers is not None and answers.shape[-1] == 1 and head_activation.kind is None:
        with evaluating(module):
            tail = find_tail(run, sample) if output in (None, "regression") else None
        if tail is not None:  # no logit of yes or no, but a value
            run, output, head_activation = by_tangent(run, tail), "regression", HeadActivation(is_curved=True)
    classes = 0 if answers is None else answers.shape[-1] if its_task is None else its_task.class_count(answers)
    meaning = _meaning(module, kind, its_task, classes, head_activation, output)
    if meaning == "sigmoid" and classes == 1 and its_task is None:
        run, answers = yes_and_no(run), None
    in_order = reads_text and "input_ids" in first and readers.pictures is None
    if reads_text:
        others = _of_other_words(sample) if kind == "text" and readers.pictures is None else None
        find_layout = partial(_find_text_layout, two_rows or module, structure, run, first, prefix, others, in_order, answers, readers)
    else:
        find_layout = partial(image_layout, module, structure, run, sample, prefix, answers, first_row)
    layout_of, layout = _find_layout(module, run, first, find_layout)
    has_labels = kind != "clip" and (its_task is None or classes > 0)
    # a text model that reads the last token needs the positions of words, as padding moves them
    takes_positions = kind == "text" and layout.class_token == -1 and "position_ids" in inspect.signature(module.forward).parameters
    title = name or lib.title_of(module, library)
    text_side = partial(wrap, module, name=title, kind=kind, preprocess=preprocess, tokenizer=tokenizer, head=head, side="text")
    model = Model(
        name=title,
        kind=kind,
        module=module,
        blocks=structure.blocks,
        entry=structure.entry,
        labels=_labels(module, library, classes, labels, meaning if its_task is None else "softmax") if has_labels else (),
        prepare_input=_of_source(readers.preparer(kind, layout.prefix, takes_positions), two_rows),
        forward=run,
        layout_of=layout_of,
        first_misplaced=check_of_inputs(two_rows or module, structure, run, first, layout, in_order),
        chat_input=readers.chat_preparer if isinstance(its_task, GeneratedAnswer) else None,
        grey_pixels=readers.grey_pixels,
        block_kind=structure.block_kind,
        class_blocks=structure.class_blocks,
        output=meaning,
        head_activation=head_activation,
        windows_of=partial(prepare_windows, module, words, takes_positions)
        if kind == "text" and words and readers.pictures is None
        else None,
        prompt_inputs=Prompts(module, words) if kind == "clip" and words else None,
        side=side,
        task=its_task,
        raw_forward=raw,
        made_by=(wrap, arguments),
        text_side=cache(text_side) if kind == "clip" and side == "image" else None,
    )
    model = _with_details(model, readers, library, structure, takes_positions, answers if run is own_forward else None)
    check_reads(kind_by_caller, model.reads, title)
    return model


def _with_details(
    model: Model, readers: InputReaders, library: lib.Library, structure: rows.Structure, takes_positions: bool, answers: Tensor | None
) -> Model:
    """Return ``model``, of ``library`` and with this ``structure``, with facts about it. ``readers`` prepare its inputs; for a model of
    texts ``takes_positions`` says whether positions are sent, and ``answers`` are the logits of the first sample (None: not known yet).
    """
    details = details_of(model, readers, library, structure.width) | (
        {BLOCKS_LEFT_OUT: structure.left_out} if any(structure.left_out) else {}
    )
    if model.kind == "text" and model.task is None and readers.pictures is None:
        details[CHANGED_BY_PADDING] = _is_changed_by_padding(model, readers, library, takes_positions, answers)
    return replace(model, details=details)


def _known_task(module: nn.Module, kind: ModelKind | None, arguments: Mapping[str, Any], blocks: Any) -> tuple[ModelKind, Task | None, Any]:
    """Return the kind of ``module``, its task if it is known before it runs, else None, and the blocks to explain (None: to be found).
    ``kind`` and ``blocks`` are what the caller named, and ``arguments`` all that :func:`wrap` was given.
    """
    library = lib.library_of(module)
    if (function := arguments["boxes"]) is not None:
        return kind or "image", OwnBoxes(function), blocks
    if not lib.is_asked_with_texts(module):
        if arguments["picture"] is not None:
            raise ExplainerError("picture= is for detectors that are asked with texts (OWL-ViT, Grounding DINO); leave it out")
        return kind or ("molecule" if arguments["reader"] is not None else lib.kind_of(module, library)), None, blocks
    if arguments["picture"] is None:
        task: PromptedBoxes = BoxesByTexts(module, arguments["labels"], arguments["tokenizer"])
        return "image", task, blocks or blocks_of_tower(module, "image", task)
    recipe, guess = lib.preprocessing_of(module, library, arguments["preprocess"])
    notes = () if guess is None else (guess,)
    task = WordsOfBoxes(module, prepare_images(module, recipe, notes, arguments["picture"]).tensors["pixel_values"])
    return "text", task, blocks or blocks_of_tower(module, "text", task)


def _forwards(
    module: nn.Module, library: lib.Library, kind: ModelKind, side: Side, head: str | int | None, first: Mapping[str, Tensor]
) -> tuple[TwoRows | None, Forward]:
    """Return ``module`` as one row of blocks if it is an encoder-decoder of texts, else None, and the function that runs it on tensors and
    returns logits. ``first`` holds a sample text, on which the row of blocks must agree with the module; empty: it is not looked for.
    """
    if kind == "molecule":
        return None, calls.molecule_forward_of(module, head)
    two_rows = two_rows_of(module) if kind == "text" and library == "transformers" and first else None
    two_rows = two_rows if two_rows is not None and two_rows.agrees_with(module, first) else None
    return two_rows, calls.forward_of(module, library, side, head, two_rows)


def _of_source(prepare: Callable[[Input], Prepared], two_rows: TwoRows | None) -> Callable[[Input], Prepared]:
    """Return ``prepare``; for a model of ``two_rows`` one that leaves the decoder's tokens out of tensors, as the model writes them."""
    if two_rows is None:
        return prepare
    return lambda inputs: prepare(source_of(inputs) if isinstance(inputs, Mapping) else inputs)


def _is_changed_by_padding(
    model: Model, readers: InputReaders, library: lib.Library, takes_positions: bool, answers: Tensor | None
) -> bool:
    """Return whether padding changes the answers of ``model``, which reads texts. It is tried on the first sample of ``readers``, whose
    logits are ``answers`` (None: not known yet). ``takes_positions``: whether positions are sent with a text. A model of transformers
    (``library``) whose head reads the first token and whose tokenizer pads at the end is not tried: it follows the mask, and False is
    returned.
    """
    tokenizer, first = None if readers.words is None else readers.words.tokenizer, readers.first
    is_right = getattr(tokenizer, "padding_side", "right") == "right"
    if library == "transformers" and is_right and model.layout_of(first).class_token == 0:
        return False
    return is_changed_by_padding(model.module, model.forward, first, tokenizer, takes_positions, answers)


def _trainable(module: nn.Module) -> nn.Module:
    """Return the module inside the wrappers of training. Raises ExplainerError if no gradient can pass it."""
    if not isinstance(module, nn.Module):
        raise ExplainerError(f"wrap takes a torch module, not a {type(module).__name__}; to load one by its name use explainers.load")
    module = lib.unwrap(module)
    if any(tensor.is_inference() for tensor in chain(module.parameters(), module.buffers())):
        raise ExplainerError(
            "the weights were made under torch.inference_mode, so that no gradient can go through them: build the model outside"
        )
    return module


def _adapted(module: nn.Module, preprocess: Any, name: str | None) -> tuple[nn.Module, Any, str | None]:
    """Return the arguments of :func:`wrap` for a model of sounds as a model of pictures, and for one that reads a text and then a picture
    as one whose ids hold both; for any other as they are.
    """
    if reads_words_and_patches(module):
        return WordsAndPatches(module), preprocess, name or lib.title_of(module, "transformers")
    if lib.library_of(module) != "transformers" or not reads_sounds(module):
        return module, preprocess, name
    return (*as_model_of_pictures(module, preprocess), name or lib.title_of(module, "transformers"))


def _meaning(
    module: nn.Module, kind: ModelKind, task: Task | None, classes: int, head_activation: HeadActivation, output: Output | None
) -> Output:
    """Return the meaning of the logits ("softmax", "sigmoid" or "regression") of a module of this ``kind`` with this number of ``classes``:
    ``output`` if the caller named it, else that of the task, the configuration or the head's final activation. Raises ExplainerError for an
    unknown ``output``.
    """
    usual: Output = "softmax" if task is None else task.output
    if kind != "clip" and task is None:
        usual = output_of(getattr(module, "config", None), classes, head_activation.kind)
    meaning = output or usual
    if meaning not in OUTPUTS:
        raise ExplainerError(f"output={output!r}: choose one of {', '.join(OUTPUTS)}")
    return meaning


def _find_layout(module: nn.Module, run: Forward, first: Mapping[str, Tensor], find: Callable[[], LayoutOf]) -> tuple[LayoutOf, Layout]:
    """Call ``find``, which returns a function from a sample to the layout of its tokens. Return this function, and the layout that it gives
    for the sample ``first``.

    ``run`` returns the logits of ``module``. Raises ExplainerError if no layout is found; the message blames random numbers in the forward
    pass if they are the reason.
    """
    try:
        layout_of = find()
        return layout_of, layout_of(first)
    except ExplainerError:
        with evaluating(module):
            chance = why_not_repeatable(run, first)
        if chance is None:
            raise
        raise ExplainerError(chance) from None


def _find_text_layout(
    module: nn.Module,
    structure: rows.Structure,
    run: Forward,
    first: Mapping[str, Tensor],
    prefix: int | None,
    other: Mapping[str, Tensor] | None,
    in_order: bool,
    answers: Tensor | None,
    readers: InputReaders,
) -> LayoutOf:
    """Return the function that gives the layout of any batch of a model's texts; ``first`` is a sample text, ``answers`` its logits by
    ``run``; ``prefix`` says how many tokens stand before the words, None: find out.

    ``other`` is a sample of other words, to find out whether the model reads the words in a second way; None: that is not checked.
    ``in_order``: whether the tokens must lie in the order of the words. ``readers`` prepare inputs; tokens of a picture that the model
    writes from must lie where they are drawn. Raises ExplainerError if they do not, or if words are read twice.
    """
    if isinstance(readers.pictures, SourceReader):
        readers.pictures.check(module, structure, run, first)
    words = find_word_places(module, structure, run, first) if in_order else WordPlaces()
    layout_of = text_layout(module, structure, run, first, prefix, words)
    if other is not None and reads_words_twice(module, structure, run, first, other, answers):
        raise ExplainerError(_READ_TWICE)
    return layout_of


def _of_other_words(sample: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a sample text in which one word is repeated, followed by the last token of the first text in ``sample``."""
    first = {name: tensor[:1] for name, tensor in sample.items()}
    ids = first["input_ids"]
    return {**first, "input_ids": torch.where(ids == ids[:, -1:], ids, ids[:, :1])}


_READ_TWICE = (
    "the model reads the words by another way too than as the tokens of the blocks that were found, as a decoder does in an "
    "encoder-decoder (BART, T5), so that no map of these accounts for its answer. Wrap its encoder for features, explain a classifier of "
    "one row of blocks, or pass blocks= (modules that all of it goes through)"
)


def _plain_labels(task: Task | None, labels: Sequence[str] | Mapping[str, Sequence[str]] | None) -> Sequence[str] | None:
    """Return ``labels`` if the model has one output; for a model with several outputs give them to its ``task`` and return None. Raises
    ExplainerError for a dict of names and one output.
    """
    if isinstance(task, SeveralHeads):
        task.name_classes(labels)
        return None
    if isinstance(task, WordsOfBoxes):
        return [THE_TEXT]
    if isinstance(labels, Mapping):
        raise ExplainerError("labels= as a dict is for models with several outputs: pass a list, in the order of the logits")
    return labels


#: What to pass where a trial pass fails.
_HINTS: dict[ModelKind, str] = {"text": "tokenizer= or kind=", "molecule": "reader= or kind="}


def _explore(
    module: nn.Module,
    kind: ModelKind,
    side: Side,
    run: Callable[[Mapping[str, Tensor]], Tensor],
    sample: Mapping[str, Tensor],
    blocks: Any,
    entry: Any,
    first_row: Callable[[], bool],
) -> tuple[rows.Structure, Tensor | None, HeadActivation]:
    """Run ``module`` by ``run`` on ``sample``, and return its structure, the logits and their final activation. For CLIP models only the
    tower of ``side`` runs, and there are no logits. ``blocks`` and ``entry`` name modules as :func:`explainers.wrap` takes them;
    ``first_row`` is passed on to the search for blocks.
    """
    answers: Tensor | None = None
    final_activation: FinalActivation | None = None

    def whole() -> None:
        nonlocal answers, final_activation
        answers, final_activation = logits_of(run, sample)

    def tower() -> None:
        calls.features_of(module, lib.library_of(module), side)(sample)

    try:
        watched = tower if kind == "clip" else whole
        words = _tokens_of(sample) if kind in ("text", "molecule") or side == "text" else None
        structure = rows.find(module, watched, len(next(iter(sample.values()))), blocks, entry, words, first_row)
    except Exception as problem:
        if isinstance(problem, ExplainerError) or ran_out_of_memory(problem):
            raise
        if kind != "clip" and (reason := lib.why_unread(module, lib.library_of(module))) is not None:
            raise ExplainerError(f"{type(module).__name__} {reason}") from problem
        shapes = {name: tuple(tensor.shape) for name, tensor in sample.items()}
        hint = _HINTS.get(kind, "preprocess= (the image size) or kind=")
        raise ExplainerError(f"a trial pass with {shapes} failed: {problem}; pass {hint}") from problem
    if answers is None or final_activation is not None:
        return structure, answers, HeadActivation(final_activation)
    with evaluating(module):
        return structure, answers, HeadActivation(looks_like_probabilities=like_probabilities(answers, run, sample))


def _tokens_of(sample: Mapping[str, Tensor]) -> int | None:
    """Return the number of tokens in a sample of a text or a molecule; None if unknown."""
    row = sample.get("input_ids", sample.get("attention_mask"))
    return None if row is None else row.shape[1]


def _labels(module: nn.Module, library: lib.Library, classes: int, passed: Sequence[str] | None, output: Output) -> list[str]:
    if output == "sigmoid" and classes == 1:  # yes, and no
        if passed is not None and len(passed) == 2:
            return naming.distinct([str(label) for label in passed])
        if passed is not None and len(passed) > 2:
            raise ExplainerError(f"labels= holds {len(passed)} names; a model with one logit has the name of yes, or those of yes and no")
        yes = _labels(module, library, classes, passed, "softmax")[0]
        return [yes, f"no {yes}"]
    if passed is not None:
        if len(passed) != classes:
            raise ExplainerError(f"labels= holds {len(passed)} names; the model has {classes} classes")
        return naming.distinct([str(label) for label in passed])
    if library == "timm":
        return naming.timm_labels(getattr(module, "pretrained_cfg", None) or {}, classes)
    return naming.config_labels(getattr(getattr(module, "config", None), "id2label", None), classes)
