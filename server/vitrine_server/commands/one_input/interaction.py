"""``vitrine interaction`` and ``vitrine alike``: what the parts of two inputs add together to their cosine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrine_server.commands import CommandError, Commands
from vitrine_server.commands.files import check_out_file, print_and_save
from vitrine_server.commands.model import add_model, default_model, open_model

if TYPE_CHECKING:
    pass

ENDINGS = (".json", ".npy")
OF_EXCLIP = {"rule": "libra", "steps": 0, "baseline": "zero", "block": "first", "quadrature": "gauss_legendre"}
OF_FIXLIP = ("variant", "p", "budget", "parts", "seed")


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the commands ``vitrine interaction`` and ``vitrine alike``."""
    parser = commands.add_parser(
        "interaction",
        help="which words of a prompt go with which patches of a picture",
        description="Show what each pair of a word and a patch adds to the cosine of a prompt and a picture.",
        epilog="Example:  vitrine interaction photo.jpg --prompt 'a red ball on grass'",
    )
    parser.add_argument("image", metavar="IMAGE", type=Path, help="an image file")
    parser.add_argument("--prompt", metavar="TEXT", required=True, help="what the picture is compared with")
    parser.add_argument(
        "--by",
        choices=("exclip", "fixlip"),
        default="exclip",
        help="exclip: the Jacobians of both sides, in seconds; fixlip: a fit to answers with parts left out (default: %(default)s)",
    )
    fixlip = parser.add_argument_group("of --by fixlip")
    fixlip.add_argument("--variant", choices=("banzhaf", "shapley"), help="weights of coalitions (default: banzhaf)")
    fixlip.add_argument("--p", type=float, metavar="P", help="share of words and parts that are in a coalition, on average (default: 0.5)")
    fixlip.add_argument("--budget", type=int, metavar="N", help="maximum number of coalitions for the fit (default: 4096)")
    fixlip.add_argument("--parts", type=int, metavar="N", help="maximum number of parts into which the picture is divided (default: 49)")
    fixlip.add_argument("--seed", type=int, metavar="N", help="seed of the random coalitions (default: 0)")
    _add_settings(parser, "a CLIP model (default: %(default)s)", "clip")
    parser.set_defaults(run=run_interaction)
    parser = commands.add_parser(
        "alike",
        help="why a model finds two pictures, or two texts, alike",
        description="Show what each pair of parts adds to the cosine of two inputs of the same kind.",
        epilog="Examples:\n  vitrine alike one.jpg other.jpg\n  vitrine alike 'A dull film.' 'What a bore.' --model reviews-bert",
    )
    parser.add_argument("inputs", metavar="INPUT", nargs=2, help="two image files, or two texts")
    _add_settings(parser, "see 'vitrine models' (default: the embedded one for such inputs)", None)
    parser.set_defaults(run=run_alike)


def _add_settings(parser: argparse.ArgumentParser, about: str, default: str | None) -> None:
    """Add the options of both commands to ``parser``: the model (with its help ``about`` and a default), how the interactions are computed,
    and where they are written.
    """
    add_model(parser, about, default)
    parser.add_argument("--rule", metavar="NAME", default="libra", help="a rule that carries gradients (default: %(default)s)")
    parser.add_argument(
        "--steps",
        type=int,
        default=0,
        help="number of points on the path from the baseline, over which to average; 0: only the input (default)",
    )
    parser.add_argument("--baseline", choices=("zero", "empty"), default="zero", help="where the path begins (default: %(default)s)")
    parser.add_argument(
        "--block", choices=("first", "last"), default="first", help="block whose input tokens are explained (default: %(default)s)"
    )
    parser.add_argument(
        "--quadrature",
        choices=("gauss_legendre", "riemann"),
        default="gauss_legendre",
        help="how the path is averaged (default: %(default)s)",
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument("--out", metavar="FILE", type=Path, help=f"write the numbers: a file ending in {' or '.join(ENDINGS)}")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")


def run_interaction(args: argparse.Namespace) -> None:
    """Run ``vitrine interaction`` with its parsed arguments ``args``: compute how much each pair of a word of the prompt and a patch of the
    picture adds to the cosine of the two, print that as a table, or as JSON with ``--json``, and write it to the file of ``--out``, if any.
    Raises CommandError for arguments that do not fit together.
    """
    check_out_file(args.out, ENDINGS)
    if not args.image.is_file():
        raise CommandError(f"there is no file {args.image}")
    given = {name: value for name in OF_FIXLIP if (value := getattr(args, name)) is not None}
    others = [name for name, default in OF_EXCLIP.items() if getattr(args, name) != default]
    if args.by == "exclip" and given:
        raise CommandError(f"--{next(iter(given))} belongs to --by fixlip: add that, or leave it out")
    if args.by == "fixlip" and others:
        raise CommandError(f"--{others[0]} is of exclip's Jacobians: leave it out, or leave out --by fixlip")
    import explainers

    model = open_model(args, args.model, args.device)
    if args.by == "fixlip":
        print_and_save(args, explainers.faithful_interaction(model, args.image, args.prompt, **given))
    else:
        print_and_save(args, explainers.interaction(model, args.image, args.prompt, **_settings(args)))


def run_alike(args: argparse.Namespace) -> None:
    """Run ``vitrine alike`` with its parsed arguments ``args``: compute how much each pair of parts of two pictures, or of two texts, adds
    to their cosine, print that as a table, or as JSON with ``--json``, and write it to the file of ``--out``, if any. Raises CommandError
    for arguments that do not fit together.
    """
    check_out_file(args.out, ENDINGS)
    are_files = [Path(text).is_file() for text in args.inputs]
    if are_files[0] != are_files[1]:
        missing = args.inputs[are_files.index(False)]
        raise CommandError(
            f"there is no file {missing}: give two image files, or two texts; 'vitrine interaction' compares one with the other"
        )
    import explainers

    model = open_model(args, args.model or default_model(are_files[0], None), args.device)
    if model.kind != "clip" and (model.kind == "text") == are_files[0]:
        wanted = "texts" if model.kind == "text" else "image files"
        raise CommandError(f"{model.name} compares {wanted}: give two of them, or choose another --model")
    inputs = [Path(text) if is_file else text for text, is_file in zip(args.inputs, are_files, strict=True)]
    print_and_save(args, explainers.input_interaction(model, *inputs, **_settings(args)))


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in OF_EXCLIP}
