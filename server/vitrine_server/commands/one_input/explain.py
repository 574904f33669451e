"""``vitrine explain``: explain one answer of a model, and write pictures, numbers and one JSON file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrine_server.commands import CommandError, Commands, Listed, count_of, in_flags
from vitrine_server.commands.files import RESULT, check_out_folder, files_of_former_run, read_text_file, remove_files
from vitrine_server.commands.model import add_model, default_model, open_model
from vitrine_server.commands.progress import MapsBar
from vitrine_server.commands.text_tables import text_table
from vitrine_server.export.file_names import file_stem, folder_names

if TYPE_CHECKING:
    from explainers import Attribution, Explanation, Target
    from explainers.models.inputs.types import Input
    from explainers.models.model import Model

_FLAGS_OF_NOTES = ("at", "chat", "reference")  # options of the command that notes speak of
STRONGEST_WORDS = 5  # words a method that are named in the table


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine explain``."""
    parser = commands.add_parser(
        "explain",
        help="explain what a model says about an image, a text or a molecule",
        description="Explain what a model says about an image, a text or a molecule. Prints a table; --out writes pictures and numbers.",
        epilog="Examples:\n  vitrine explain photo.jpg --target zebra --out out/\n"
        "  vitrine explain photo.jpg --prompt 'a zebra'\n  vitrine explain --text 'A dull film.'\n"
        "  vitrine explain photo.jpg --text 'What is this?' --model FOLDER\n"
        "  vitrine explain sound.wav --model FOLDER\n"
        "  vitrine explain --molecule 'c1ccccc1[N+](=O)[O-]'",
    )
    add_question(parser)
    parser.add_argument("--out", metavar="DIR", type=Path, help="write each map as .png and .npy, and result.json, there")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")
    parser.set_defaults(run=run)


#: The methods that are used where none are named, those of them that can run for the model and the target: see test_explain.
USUAL_METHODS = (
    "rollout, generic_attention, transformer_attribution, input_x_gradient, input_x_gradient:conservative, input_x_gradient:attnlrp, "
    "fullgrad_plus:libra, maskclip and random, those that can run for the model"
)


def add_question(parser: argparse.ArgumentParser, takes_texts: bool = True, methods: str = USUAL_METHODS) -> None:
    """Add to ``parser`` the options for the input, the model and the methods of an explanation; with ``takes_texts`` False only those for
    pictures. ``methods`` says which are used where none are named.
    """
    parser.set_defaults(takes_texts=takes_texts, text=None, text_file=None, text_pair=None, molecule=None, side=None, long_texts="windows")
    parser.add_argument(
        "image",
        metavar="IMAGE",
        nargs="?",
        type=Path,
        help="an image file; for a model of clips a folder of frames or an animation, for one of sounds a .wav file",
    )
    parser.add_argument(
        "--crop",
        metavar="X0,Y0,X1,Y1",
        type=crop_box,
        help="show the model only this part, in pixels of the upright image, from the top left",
    )
    parser.add_argument(
        "--window",
        metavar="LEVEL,WIDTH",
        type=grey_window,
        help="for greys of more than 8 bits: the values shown as black to white (default: the file's, else from smallest to largest)",
    )
    if takes_texts:
        _add_texts(parser)
    add_model(parser, "see 'vitrine models' (default: the embedded one for such an input)")
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--target",
        metavar="CLASS",
        action="append",
        help="name or number of a class, any:GROUP for all of a group, such as any:dog, clrp:CLASS or sglrp:CLASS for it rather than "
        "all others, finer:CLASS for it against its nearest kinds, or over:0.5 for every label of at least that probability; repeatable "
        "(default: the top class)",
    )
    target.add_argument("--prompt", metavar="TEXT", action="append", help="what to look for, for a CLIP model; repeatable")
    parser.add_argument(
        "--at",
        metavar="PLACE",
        help="for a model with a task: which place of its output is explained: a word, tokens:5-7, patch:3,4, ...; 'vitrine models' names "
        "the task, docs/tasks.md the places (default: where the model is surest)",
    )
    parser.add_argument("--chat", action="store_true", help="for a language model that writes: put its chat template around the prompt")
    parser.add_argument("--reference", metavar="INPUT", help="for features without a head: an image file, or a text, to compare with")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--against", metavar="CLASS", help="explain how much more than this class, or prompt, the target scores")
    form.add_argument("--probability", action="store_true", help="explain the probability in place of the logit")
    says = f"specs or sets such as libragrad: see 'vitrine methods' (default: {methods})"
    parser.add_argument("--methods", metavar="SPEC", nargs="+", action=Listed, help=says)
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument(
        "--precision",
        choices=("auto", "double", "tf32"),
        default="auto",
        help="which maps of relevance are computed in float64: those that need it by their estimated rounding error (the default), or all "
        "(double); tf32: as by default, and a GPU may round products of float32 to TF32",
    )
    parser.add_argument(
        "--outlier-tokens",
        choices=("keep", "move", "move_published"),
        default="keep",
        help="for images: move explains the model without outlier tokens; 'vitrine registers' finds their neurons (default %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the methods that draw random numbers (default 0)")


def _add_texts(parser: argparse.ArgumentParser) -> None:
    """Add the options for texts and molecules in place of an image to ``parser``."""
    text = parser.add_mutually_exclusive_group()
    text.add_argument(
        "--text", help="a text instead of an image; together with an image, the question for a model that writes about pictures"
    )
    text.add_argument("--molecule", metavar="SMILES", help="a molecule instead: its SMILES, or a .mol or .sdf file")
    text.add_argument("--text-file", metavar="FILE", help="a file that holds the text, - for standard input")
    parser.add_argument("--text-pair", metavar="TEXT", help="a second text that the model reads with the first")
    parser.add_argument(
        "--further-image",
        metavar="FILE",
        type=Path,
        action="append",
        help="another picture in the same prompt, for a model that writes about pictures; repeatable",
    )
    parser.add_argument(
        "--side",
        choices=("image", "text"),
        help="for a CLIP model: explain the image (the default) or the words of each prompt",
    )
    parser.add_argument(
        "--long-texts",
        choices=("windows", "cut"),
        default="windows",
        help="how to read a text that is too long for the model: whole in overlapping windows (the default), or cut",
    )


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine explain`` with its parsed arguments: explain one input. Print a table of the answer and its maps, or with ``--json``
    the result as JSON, and write each map as .png and .npy and the result as ``result.json`` to the folder of ``--out``, if any; maps that
    an earlier run left there are removed.
    """
    check_out_folder(args.out)
    former = [] if args.out is None else files_of_former_run(args.out)
    _, result = make_explanation(args)
    files = write(result, args.out) if args.out else {}
    print(json.dumps(as_json(result, files), ensure_ascii=False) if args.json else table(result))
    if args.out is None:
        return
    written = {args.out / name for names in files.values() for name in names}
    if not args.json:
        print(f"\nwrote {args.out / RESULT} and {count_of(len(written), 'file')} of maps next to it")
    if removed := remove_files((file for file in former if file not in written), args.out):
        print(f"removed {count_of(removed, 'file')} of maps that an earlier run left there", file=sys.stderr if args.json else sys.stdout)


def make_explanation(args: argparse.Namespace) -> tuple[Model, Explanation]:
    """Return the model and the explanation that the command line ``args``, see :func:`add_question`, asks for."""
    inputs = read_input(args)
    if getattr(args, "further_image", None) and (args.image is None or (args.text is None and args.text_file is None)):
        raise CommandError("--further-image is for a prompt with pictures: give an image file, --text and --model")
    name = args.model or default_model(args.image is not None, args.prompt, args.molecule is not None)
    import explainers  # after the cheap checks: this imports torch
    from explainers.methods.presets import specs_called

    model = open_model(args, name, args.device)
    check_kind(args, model)
    with MapsBar() as progress:
        options = ("side", "seed", "long_texts", "precision", "at", "reference", "chat", "outlier_tokens")
        how = {name: getattr(args, name) for name in options}
        methods = None if args.methods is None else specs_called(args.methods, lambda: explainers.variants(model))
        result = explainers.explain(model, inputs, read_targets(args, model), methods, observer=progress, **how)
    assert isinstance(result, explainers.Explanation)  # of one input
    return model, result


def read_input(args: argparse.Namespace) -> Input:
    """Return the input named by the arguments, as ``explain`` takes it: a picture, a text, a pair of texts, a molecule, or a picture with a
    prompt. Raises CommandError unless there is exactly one.
    """
    inputs = [value for value in (args.image, args.text, args.text_file, args.molecule) if value is not None]
    if args.image is not None and args.model is not None and len(inputs) == 2 and args.molecule is None and args.text_pair is None:
        return picture_prompt(args)
    if len(inputs) != 1:
        problem = "more than one thing to explain" if inputs else "nothing to explain"
        raise CommandError(f"{problem}: give an image file{', --text, --text-file or --molecule' if args.takes_texts else ''}")
    if args.image is not None:
        if args.text_pair is not None:
            raise CommandError("--text-pair is the second of two texts: give --text or --text-file in place of an image")
        if args.image.is_dir() and args.model is not None:
            return Path(args.image)  # the frames of a clip, where the model takes clips
        if args.image.is_dir():
            raise CommandError(f"{args.image} is a folder: give an image file; 'vitrine summarise' takes folders")
        if not args.image.is_file():
            raise CommandError(f"there is no file {args.image}")
        return picture(args.image, args.crop, args.window)
    if args.window is not None:
        raise CommandError("--window is for images: give an image file in place of a text")
    if args.crop is not None:
        raise CommandError("--crop is for images: give an image file in place of a text")
    if args.molecule is not None:
        if args.text_pair is not None:
            raise CommandError("--text-pair is the second of two texts: give --text or --text-file in place of a molecule")
        return str(args.molecule)
    text = args.text if args.text is not None else read_text(args)
    if args.text_pair is None:
        return text
    from explainers import TextPair

    return TextPair(text, args.text_pair)


def picture_prompt(args: argparse.Namespace) -> Input:
    """Return the pictures and the question about them that the arguments name, for a vision-language model."""
    further = args.further_image or []
    check_pictures(further if args.image.is_dir() else [args.image, *further])
    from explainers import Clip, PicturePrompt

    if args.image.is_dir() or is_animation(args.image):
        if further or args.crop is not None or args.window is not None:
            raise CommandError(f"{args.image} is a video: leave --further-image, --crop and --window out")
        return PicturePrompt(Clip(args.image), args.text if args.text is not None else read_text(args))
    shown: Any = [picture(args.image, args.crop, args.window), *further]
    return PicturePrompt(shown, args.text if args.text is not None else read_text(args))


def is_animation(file: Path) -> bool:
    """Return whether ``file`` is a picture with several frames, such as an animated GIF."""
    from PIL import Image

    try:
        with Image.open(file) as picture:
            return getattr(picture, "n_frames", 1) > 1 and getattr(picture, "is_animated", False)
    except OSError:  # what is wrong with it is said where it is read
        return False


def check_pictures(files: Sequence[Path]) -> None:
    """Raise CommandError if one of ``files``, the pictures of a prompt, is no file."""
    for file in files:
        if not file.is_file():
            raise CommandError(f"there is no file {file}")


def crop_box(text: str) -> tuple[int, int, int, int]:
    """Parse ``text``, the value of ``--crop``, "x0,y0,x1,y1", to four whole numbers. Raises ArgumentTypeError for a text of another
    form.
    """
    parts = text.split(",")
    if len(parts) != 4 or not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(
            f"{text!r} does not name a part of the picture: give four whole pixels x0,y0,x1,y1, such as 40,0,240,200"
        )
    x0, y0, x1, y1 = map(int, parts)
    return x0, y0, x1, y1


def grey_window(text: str) -> tuple[float, float]:
    """Parse ``text``, the value of ``--window``, "level,width", to two numbers. Raises ArgumentTypeError for a text of another form."""
    try:
        level, width = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} does not name a window: give its level and its width, such as 40,400") from None
    return level, width


def picture(image: Path, box: tuple[int, int, int, int] | None, window: tuple[float, float] | None) -> Input:
    """Return the picture file ``image`` as ``explain`` takes it: whole or cropped to ``box``, with the grey levels of ``window`` if there
    is one.
    """
    from explainers import Crop, WindowedPicture

    shown = image if window is None else WindowedPicture(image, *window)
    return shown if box is None else Crop(shown, box)


def read_text(args: argparse.Namespace) -> str:
    """Return the text of the file that ``--text-file`` in the arguments ``args`` names, or of standard input for "-". Raises CommandError
    if it cannot be read.
    """
    if args.text_file != "-":
        return read_text_file(Path(args.text_file))
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise CommandError("standard input is no text in UTF-8") from None


def check_kind(args: argparse.Namespace, model: Model) -> None:
    """Raise CommandError if the input or the options in ``args``, the command line, do not suit the kind of ``model``."""
    has_text = args.text is not None or args.text_file is not None
    if args.image is not None and args.image.suffix.lower() == ".wav" and "sound" not in model.reads:
        raise CommandError(f"{model.name} reads no sounds: name a model that does, --model with the folder of an AST, Wav2Vec2 or Whisper")
    writes_from_it = model.reads_pictures and "text" not in model.reads
    if writes_from_it and (args.image is None or has_text):
        raise CommandError(f"{model.name} writes from one {model.reads[0]} alone: give a file of it, and no text")
    if model.reads_pictures and not writes_from_it and (args.image is None or not has_text):
        raise CommandError(f"{model.name} writes about a picture: give an image file and --text 'What is this?'")
    if not model.reads_pictures and args.image is not None and has_text:
        raise CommandError(f"{model.name} reads no picture together with a text: give one of them, or a model that writes about pictures")
    if model.kind == "text" and not writes_from_it and args.image is not None and not has_text:
        send = "give --text or --text-file in place of an image" if args.takes_texts else "choose a model that looks at images"
        raise CommandError(f"{model.name} reads text: {send}")
    is_molecule = args.molecule is not None
    if is_molecule != (model.kind == "molecule"):
        send = "choose a model that reads molecules, such as molecules" if is_molecule else "give --molecule SMILES"
        raise CommandError(f"{model.name} reads {'no molecules' if is_molecule else 'molecules'}: {send}")
    if args.image is not None and args.image.is_dir() and not model.details.get("frames") and not model.reads_pictures:
        raise CommandError(f"{args.image} is a folder: give an image file; 'vitrine summarise' takes folders")
    if model.kind in ("image", "clip") and args.image is None:
        raise CommandError(f"{model.name} looks at images: give an image file in place of a text")
    if model.kind == "clip" and not args.prompt:
        raise CommandError(f"{model.name} compares an image with prompts: give --prompt 'a photo of a zebra'")
    if model.kind != "clip" and args.side:
        raise CommandError(f"{model.name} compares nothing with prompts: leave --side out, or choose a CLIP model")
    if model.kind != "clip" and args.prompt:
        raise CommandError(f"{model.name} knows classes, not prompts: give --target in place of --prompt")


def read_targets(args: argparse.Namespace, model: Model) -> Any:
    """Return the targets for ``explain`` that the command line ``args`` names for ``model``, a list; None if it names none, which means the
    top class.
    """
    from explainers.records.targets import parse_target, targets_of_form

    def named(text: str) -> int | str | Target:
        return text if model.kind == "clip" else parse_target(text, model.labels)

    names: list[int | str | Target] = [named(text) for text in args.prompt or args.target or []]
    if args.against is not None and not names:
        raise CommandError("--against needs a --target (or --prompt) to be set against it")
    return targets_of_form(names, None if args.against is None else named(args.against), args.probability)


def write(result: Explanation, out: Path) -> dict[tuple[str, str], list[str]]:
    """Write every map to the folder ``out`` as .png and .npy, maps by pixel as .pixels.npy, and the whole explanation as ``result.json``.

    Returns (target, method) -> the names of its files, relative to ``out``. With several targets each has a folder of its own.
    """
    import numpy as np

    from explainers.rendering.overlays import render_overlay

    folders = {target.label: "" for target in result.targets}
    if len(folders) > 1:
        folders = dict(zip(folders, folder_names(list(folders)), strict=True))
    files: dict[tuple[str, str], list[str]] = {}
    for attribution in result.maps:
        stem = Path(folders[attribution.target], file_stem(attribution.method))
        (out / stem.parent).mkdir(parents=True, exist_ok=True)
        render_overlay(result, attribution).save(out / f"{stem}.png")
        scores = attribution.scores if attribution.patches is None else attribution.scores[attribution.content].view(attribution.patches)
        np.save(out / f"{stem}.npy", scores.numpy())
        files[attribution.target, attribution.method] = [f"{stem}.png", f"{stem}.npy"]
        if attribution.pixels is not None:
            np.save(out / f"{stem}.pixels.npy", attribution.pixels.numpy())
            files[attribution.target, attribution.method].append(f"{stem}.pixels.npy")
    text = json.dumps(as_json(result, files), ensure_ascii=False, indent=1)
    (out / RESULT).write_text(text + "\n", "utf-8")
    return files


def as_json(result: Explanation, files: dict[tuple[str, str], list[str]]) -> dict[str, Any]:
    """Return the explanation ``result`` as the server's JSON, with the ``files`` written for each map, which are given by target and
    method.
    """
    data: dict[str, Any] = result.to_json()
    for entry in data["maps"]:
        if written := files.get((entry["target"], entry["method"])):
            entry["files"] = written
    return data


def table(result: Explanation) -> str:
    """Format the explanation ``result`` as text: the model's answer, one row for each map, and a sentence on what the
    maps have in common.
    """
    from explainers import agreement_sentence, picture_sentence

    top, is_value = result.top(5), result.output == "regression"
    numbers = ("value",) if is_value else ("probability", "logit")
    says = [(target.label, *([] if is_value else [f"{target.probability:.1%}"]), f"{target.logit:+.3f}") for target in top]
    doubt = [] if result.abstention is None else [f"{result.abstention.qualify(says[0][0])} ({result.abstention.detail})\n"]
    where = "" if result.place is None else f" of {result.place.label} ({result.place.at})"
    parts = [*doubt, f"{result.model} says{where}", text_table(("class", *numbers), says)]
    if result.prompted and all(target.abstention for target in result.targets):
        parts.append("none of these was found for sure: a probability only compares them")
    parts += [f"{target.label}: {target.abstention.says} ({target.abstention.detail})" for target in result.targets if target.abstention]
    for label in dict.fromkeys(target.label for target in result.targets):
        maps = {attribution.method: attribution for attribution in result.maps if attribution.target == label}
        parts += [f"\nwhy {label}?", text_table(*map_rows(list(maps.values()), getattr(result.input, "frames", None)))]
        parts += [f"{method}: {which}" for method, attribution in maps.items() if (which := picture_sentence(attribution))]
        if sentence := agreement_sentence(result, label):
            parts.append(sentence)
    if result.notes:
        parts += ["", *(f"note: {in_flags(note, _FLAGS_OF_NOTES)}" for note in result.notes)]
    return "\n".join(parts)


def map_rows(maps: Sequence[Attribution], frames: int | None = None) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the headings of the table of maps and one row for each map: its range, how far its sum misses the logit, the correlation
    between two seeds for a random method, its time, and where its evidence lies (for a clip of this number of ``frames``, also in which
    frame).
    """
    from explainers.rendering.drawable import SAME_FOR_EVERY_CLASS

    headings = ("method", "from", "to", "unexplained", "two seeds", "seconds", "where", "")
    where: Callable[[Attribution], str] = partial(strongest_patch, frames=frames) if maps[0].patches is not None else strongest_words
    rows = [
        (
            attribution.method,
            f"{attribution.range[0]:.3g}",
            f"{attribution.range[1]:.3g}",
            "" if attribution.completeness_error is None else f"{attribution.completeness_error:.1g}",
            "" if attribution.seed_correlation is None else f"{attribution.seed_correlation:.2f}",
            f"{attribution.seconds:.2f}",
            where(attribution),
            "; ".join([*([] if attribution.class_specific else [SAME_FOR_EVERY_CLASS]), *attribution.notes]),
        )
        for attribution in maps
    ]
    return headings, rows


def strongest_patch(attribution: Attribution, frames: int | None = None) -> str:
    """Return a text with the place of the largest score in the map ``attribution``, by row and column, counted from 1 at the top left; for
    a clip by frame, row and column.
    """
    assert attribution.patches is not None
    rows, columns = attribution.patches
    row, column = divmod(int(attribution.scores[attribution.content].argmax()), columns)
    frame, row = divmod(row, rows // (frames or 1))
    return f"{'' if frames is None else f'frame {frame + 1}, '}row {row + 1}, column {column + 1}"


def strongest_words(attribution: Attribution) -> str:
    """Return the words of the map ``attribution`` with the largest scores by magnitude as text, with their signs."""
    words = sorted(attribution.words(), key=lambda word: -abs(word.score))[:STRONGEST_WORDS]
    signs = ["" if not attribution.signed else "+" if word.score > 0 else "-" for word in words]
    named = " ".join(f"{sign}{word.text}" for sign, word in zip(signs, words, strict=True))
    from explainers.models.inputs.types import PicturePromptInput

    if not isinstance(attribution.text, PicturePromptInput):
        return named
    maps = [picture.map_of(attribution.scores) for picture in attribution.text.pictures]
    number = max(range(len(maps)), key=lambda index: float(maps[index].max()))
    row, column = divmod(int(maps[number].argmax()), maps[number].shape[1])
    name = attribution.text.picture_names[number]
    where = "the picture" if name == "picture" else name
    return f"row {row + 1}, column {column + 1} of {where}; {named}"
