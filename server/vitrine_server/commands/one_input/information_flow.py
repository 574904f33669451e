"""``vitrine information-flow``: the tokens, heads and MLPs by way of which a decoder came to a token of its answer."""

from __future__ import annotations

import argparse
from pathlib import Path

from vitrine_server.commands import Commands
from vitrine_server.commands.files import check_out_file, print_and_save
from vitrine_server.commands.model import add_model, open_model


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine information-flow``."""
    parser = commands.add_parser(
        "information-flow",
        help="the routes through a decoder by which it came to a token of its answer",
        description="Follow the answer down through the model: at each token the heads, MLPs and earlier tokens that make up most of it.",
        epilog="Example:  vitrine information-flow 'The capital of France is' --model hf/openai-community/gpt2 --out routes.svg",
    )
    parser.add_argument("prompt", metavar="PROMPT", help="the text that the model continues, or classifies")
    add_model(parser, "a decoder of texts: a name of the hub, or a folder (default: %(default)s)", "hf/openai-community/gpt2")
    parser.add_argument("--at", metavar="PLACE", help="token of the answer, such as token:9 or word:Paris (default: the first)")
    parser.add_argument(
        "--threshold", type=float, default=0.04, help="leave out routes of at most this importance, from 0 to 1 (default 0.04)"
    )
    parser.add_argument(
        "--renormalise", action="store_true", help="scale what stays to add up to 1 at each token, as the authors' tool does"
    )
    parser.add_argument("--chat", action="store_true", help="put the model's chat template around the prompt")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the numbers (.json) or the graph (.png, .pdf, .svg)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine information-flow`` with its parsed arguments: find the routes to one token of the answer. Print them as tables, or with
    ``--json`` as JSON, and write them to the file of ``--out``, if any: as numbers (.json) or a graph (.png, .pdf, .svg).
    """
    check_out_file(args.out, [".json", ".png", ".pdf", ".svg"])
    import explainers

    model = open_model(args, args.model, args.device)
    print_and_save(
        args,
        explainers.information_flow(model, args.prompt, args.at, threshold=args.threshold, renormalise=args.renormalise, chat=args.chat),
    )
