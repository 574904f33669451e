"""``vitrine interaction`` and ``vitrine alike``: what the parts of two inputs add together to their cosine."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.commands import CommandError, Commands
from server.commands.explain import default_model
from server.commands.files import check_out_file
from server.commands.model import add_model, opened

if TYPE_CHECKING:
    from explainers import Interaction

ENDINGS = (".json", ".npy")


def add(commands: Commands) -> None:
    """Declare ``vitrine interaction`` and ``vitrine alike``."""
    parser = commands.add_parser(
        "interaction",
        help="which words of a prompt go with which patches of a picture",
        description="What each word of a prompt and each patch of a picture add together to the cosine of the two.",
        epilog="Example:  vitrine interaction photo.jpg --prompt 'a red ball on grass'",
    )
    parser.add_argument("image", metavar="IMAGE", type=Path, help="an image file")
    parser.add_argument("--prompt", metavar="TEXT", required=True, help="what the picture is compared with")
    _add_settings(parser, "a CLIP model (default: %(default)s)", "clip")
    parser.set_defaults(run=run_interaction)
    parser = commands.add_parser(
        "alike",
        help="why a model finds two pictures, or two texts, alike",
        description="What each part of one input and each part of another of the same kind add together to the cosine of the two.",
        epilog="Examples:\n  vitrine alike one.jpg other.jpg\n  vitrine alike 'A dull film.' 'What a bore.' --model reviews-bert",
    )
    parser.add_argument("inputs", metavar="INPUT", nargs=2, help="two image files, or two texts")
    _add_settings(parser, "see 'vitrine models' (default: the embedded one for such inputs)", None)
    parser.set_defaults(run=run_alike)


def _add_settings(parser: argparse.ArgumentParser, about: str, default: str | None) -> None:
    """What both take: the model, how the pairs are made, and what is written."""
    add_model(parser, about, default)
    parser.add_argument("--rule", metavar="NAME", default="libra", help="a rule that carries gradients (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=0, help="of the path from the baseline, averaged over; 0: at the input (default)")
    parser.add_argument("--baseline", choices=("zero", "empty"), default="zero", help="where the path begins (default: %(default)s)")
    parser.add_argument("--block", choices=("first", "last"), default="first", help="of which block tokens enter (default: %(default)s)")
    parser.add_argument(
        "--quadrature",
        choices=("gauss_legendre", "riemann"),
        default="gauss_legendre",
        help="how the path is averaged (default: %(default)s)",
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda where there is one)")
    parser.add_argument("--out", metavar="FILE", type=Path, help=f"write the numbers: a file ending in {' or '.join(ENDINGS)}")
    parser.add_argument("--json", action="store_true", help="print the result as JSON in place of the table")


def run_interaction(args: argparse.Namespace) -> None:
    """Compare a picture with a prompt."""
    check_out_file(args.out, ENDINGS)
    if not args.image.is_file():
        raise CommandError(f"there is no file {args.image}")
    import explainers

    model = opened(args, args.model, args.device)
    _report(args, explainers.interaction(model, args.image, args.prompt, **_settings(args)))


def run_alike(args: argparse.Namespace) -> None:
    """Compare two pictures, or two texts."""
    check_out_file(args.out, ENDINGS)
    are_files = [Path(text).is_file() for text in args.inputs]
    if are_files[0] != are_files[1]:
        missing = args.inputs[are_files.index(False)]
        raise CommandError(
            f"there is no file {missing}: give two image files, or two texts; 'vitrine interaction' compares one with the other"
        )
    import explainers

    model = opened(args, args.model or default_model(are_files[0], None), args.device)
    if model.kind != "clip" and (model.kind == "text") == are_files[0]:
        wanted = "texts" if model.kind == "text" else "image files"
        raise CommandError(f"{model.name} compares {wanted}: give two of them, or choose another --model")
    inputs = [Path(text) if is_file else text for text, is_file in zip(args.inputs, are_files, strict=True)]
    _report(args, explainers.input_interaction(model, *inputs, **_settings(args)))


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in ("rule", "steps", "baseline", "block", "quadrature")}


def _report(args: argparse.Namespace, outcome: Interaction) -> None:
    """Print, or write, what came out."""
    print(json.dumps(outcome.to_json(), ensure_ascii=False) if args.json else outcome)
    if args.out is not None:
        outcome.save(args.out)
