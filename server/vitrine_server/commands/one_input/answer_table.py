"""``vitrine answer-table``: which words of a prompt made a language model write each word of its answer."""

from __future__ import annotations

import argparse
from pathlib import Path

from vitrine_server.commands import CommandError, Commands
from vitrine_server.commands.files import check_out_file, print_and_save
from vitrine_server.commands.model import add_model, open_model
from vitrine_server.commands.one_input.explain import check_pictures


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine answer-table``."""
    parser = commands.add_parser(
        "answer-table",
        help="score the words of a prompt for each word of a language model's answer",
        description="A language model writes its answer, always the likeliest token; the table says what each word of the prompt did for "
        "each of its words.",
        epilog="Example:  vitrine answer-table 'The capital of France is' --model hf/openai-community/gpt2 --out table.png",
    )
    parser.add_argument(
        "prompt", metavar="PROMPT", nargs="?", default="", help="the text that the model continues, or an encoder-decoder answers"
    )
    parser.add_argument(
        "--image",
        metavar="FILE",
        type=Path,
        action="append",
        help="for a model that writes about pictures: the picture; repeatable. For one that writes from a sound: the sound",
    )
    add_model(parser, "a language model: a name of the hub, or a folder (default: %(default)s)", "hf/openai-community/gpt2")
    parser.add_argument("--chat", action="store_true", help="put the model's chat template around the prompt")
    parser.add_argument("--method", metavar="SPEC", help="method whose maps are the rows (default: input_x_gradient:attnlrp)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the methods that draw random numbers (default 0)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the numbers (.json) or the figure (.png, .pdf, .svg)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine answer-table`` with its parsed arguments: have the model answer a prompt, and compute a table of the prompt's words by
    the answer's words. Print it, or with ``--json`` its JSON, and write it to the file of ``--out``, if any: as numbers (.json) or a figure
    (.png, .pdf, .svg).
    """
    check_out_file(args.out, [".json", ".png", ".pdf", ".svg"])
    import explainers
    from explainers.analysis.answer_table import TABLE_METHOD

    model = open_model(args, args.model, args.device)
    check_pictures(args.image or [])
    if model.reads_pictures != (args.image is not None):
        raise CommandError(
            f"{model.name} {'writes about a picture: give --image FILE' if model.reads_pictures else 'reads no picture: leave --image out'}"
        )
    if (reads_text := "text" in model.reads) != bool(args.prompt):
        needs = "give a prompt" if reads_text else f"it writes from one {model.reads[0]} alone: leave the prompt out"
        raise CommandError(f"{model.name}: {needs}")
    prompt = args.prompt if args.image is None else explainers.PicturePrompt(args.image, args.prompt)
    table = explainers.answer_table(model, prompt, args.method or TABLE_METHOD, seed=args.seed, chat=args.chat)
    print_and_save(args, table)
