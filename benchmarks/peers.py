"""Comparison with other libraries, on the same weights in one run: ``python -m benchmarks.peers [--env DIR] [ROWS]``.

Their pins differ from ours and from each other's, so they live in an environment of their own: where DIR (default build/peers) has none
yet, it is made, with ``benchmarks/peers.txt`` installed without dependencies above the packages of the interpreter that runs this. Every
row is a process of its own, as some of them patch classes of torch and transformers.

Of each row: CPU seconds of one thread for one map, theirs and ours in turn, the mean of two after one that warms up (of a library that
patches classes ours first, then theirs); the most memory that each had at once beyond the weights; and how far the two maps agree, by
correlation and by the largest difference over the largest score. Weights are random, but for the review classifier, which is embedded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import explainers
import explainers.models.libraries.torchvision_ops  # before timm

# isort: split
import timm
import transformers
from torchvision.models import VisionTransformer

from benchmarks.panel import CAT, count_operators

ROOT = Path(__file__).parent.parent
REQUIREMENTS = Path(__file__).parent / "peers.txt"
RUNS = 2
#: The comparisons that cannot be measured, each with the reason.
NOT_MEASURED = {
    "Captum: LRP": "it has rules for linear layers, convolutions, pools and a few activations alone, and refuses LayerNorm and GELU",
    "LXT: AttnLRP, BERT": "its copy of BERT calls methods that transformers 5 has no more; tests/golden/attnlrp-bert hold its numbers",
    "Quantus: MPRT": "it draws weights for each of some 75 layers in turn, our `randomisation` for each block: neither the maps nor the "
    "work are the same",
    "Chefer et al.: Transformer Attribution": "their code is no package and is not among what is installed; tests/golden/chefer-* hold its "
    "numbers, to float32's rounding, and the issue had 5.7 plain passes of it to 3.4 of ours",
}
MakeMap = Callable[[], Tensor]


@dataclass(frozen=True)
class Row:
    """A map that both libraries can make.

    ours     our spec
    make     function from the spec to two functions that make our map and theirs, flat and in one order
    patches  whether theirs changes classes that ours runs through
    """

    ours: str
    make: Callable[[str], tuple[MakeMap, MakeMap]]
    patches: bool = False


def photo() -> Tensor:
    """Return the sample photo of a cat, (1, 3, 224, 224)."""
    from PIL import Image
    from torchvision.transforms.functional import to_tensor

    return to_tensor(Image.open(CAT).convert("RGB").resize((224, 224)))[None] * 2 - 1


def vit() -> nn.Module:
    """Return timm's ViT-S/16 with random weights."""
    torch.manual_seed(0)
    return timm.create_model("vit_small_patch16_224").eval().requires_grad_(False)  # type: ignore[no-any-return]


def torchvision_vit() -> nn.Module:
    """Return torchvision's ViT of the size of ViT-S/16, with random weights also in the head."""
    torch.manual_seed(0)
    module = VisionTransformer(image_size=224, patch_size=16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536).eval()
    nn.init.normal_(module.heads.head.weight, std=0.02)  # type: ignore[union-attr, arg-type]
    return module.requires_grad_(False)


def llama() -> nn.Module:
    """Return a Llama classifier of eight layers with random weights."""
    torch.manual_seed(0)
    size = {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8}
    config = transformers.LlamaConfig(vocab_size=1000, num_labels=2, pad_token_id=0, attn_implementation="eager", **size)
    return transformers.LlamaForSequenceClassification(config).eval().requires_grad_(False)


def ids() -> Tensor:
    """Return random token ids of one text, (1, 128)."""
    return torch.randint(5, 1000, (1, 128), generator=torch.Generator().manual_seed(0))


def of_patches(pixels: Tensor) -> Tensor:
    """Return the sums of pixels (height, width) over patches of 16 x 16, (patches,)."""
    return nn.functional.avg_pool2d(pixels[None, None], 16).flatten() * 256


def ours_of(module: nn.Module, given: dict[str, Tensor], spec: str, target: int = 1) -> MakeMap:
    """Return a function that computes our map (patches or tokens,) of ``module`` for the tensors ``given``, by the method ``spec`` for
    class ``target``.
    """
    square = explainers.Preprocessing(resize=(224, 224), mean=(0.5,) * 3, std=(0.5,) * 3)
    is_image = "pixel_values" in given
    model = explainers.wrap(module, kind="image", preprocess=square) if is_image else explainers.wrap(module, kind="text")

    def make() -> Tensor:
        found = explainers.explain(model, given, target, [spec])[spec]
        scores: Tensor = found.scores[found.content] if found.patches is not None else found.scores
        return scores

    return make


def captum_saliency(spec: str) -> tuple[MakeMap, MakeMap]:
    """Return two functions that compute our map by ``spec`` and that of Captum's saliency for one ViT and picture: gradient magnitudes at
    the pixels, summed over colours and patches.
    """
    from captum.attr import Saliency

    module, pixels = vit(), photo()

    def theirs() -> Tensor:
        return of_patches(Saliency(module).attribute(pixels.clone().requires_grad_(), target=1).abs().sum(1)[0])

    return ours_of(module, {"pixel_values": pixels}, spec), theirs


def captum_integrated(spec: str) -> tuple[MakeMap, MakeMap]:
    """Return two functions that compute our map by ``spec`` and that of Captum's Integrated Gradients for one ViT and picture, from zero to
    the embedded tokens, both with the points of Gauss and Legendre.
    """
    from captum.attr import IntegratedGradients

    module, pixels = vit(), photo()

    def answer(tokens: Tensor) -> Tensor:
        return module.forward_head(module.norm(module.blocks(tokens)))  # type: ignore[no-any-return, operator]

    def theirs() -> Tensor:
        with torch.no_grad():
            tokens = module.norm_pre(module._pos_embed(module.patch_embed(pixels)))  # type: ignore[operator]
        given = {"target": 1, "n_steps": 10, "method": "gausslegendre", "internal_batch_size": 5}
        attribution: Tensor = IntegratedGradients(answer).attribute(tokens.requires_grad_(), **given)
        return attribution.sum(-1)[0, 1:].detach()

    return ours_of(module, {"pixel_values": pixels}, spec), theirs


def grad_cam(name: str) -> Callable[[str], tuple[MakeMap, MakeMap]]:
    """Return a function from a spec to two functions, which compute our map and that of the class ``name`` of pytorch-grad-cam at the first
    norm of the last block, as its tutorial for ViTs has it.

    Theirs is scaled from 0 to 1 and enlarged to the picture; ours is brought to the same form.
    """

    def make(spec: str) -> tuple[MakeMap, MakeMap]:
        import pytorch_grad_cam
        from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

        module, pixels = vit(), photo()
        cam = getattr(pytorch_grad_cam, name)(
            model=module,
            target_layers=[module.blocks[-1].norm1],
            reshape_transform=lambda x: x[:, 1:].unflatten(1, (14, 14)).permute(0, 3, 1, 2),
        )

        def theirs() -> Tensor:
            large = torch.tensor(cam(pixels.clone().requires_grad_(), [ClassifierOutputTarget(1)]))[0]
            return nn.functional.interpolate(large[None, None], (14, 14), mode="area").flatten()

        ours = ours_of(module, {"pixel_values": pixels}, spec)

        def stretched() -> Tensor:
            small = ours().view(1, 1, 14, 14)
            large = nn.functional.interpolate(small, (224, 224), mode="bilinear")
            large = (large - large.min()) / (large.max() - large.min())
            return nn.functional.interpolate(large, (14, 14), mode="area").flatten()

        return stretched, theirs

    return make


def import_lxt() -> Any:
    """Import LXT and return its module, after adding two functions that it imports but never calls, and that transformers 5 lacks."""
    import transformers.pytorch_utils

    for name in ("find_pruneable_heads_and_indices", "prune_linear_layer"):
        if not hasattr(transformers.pytorch_utils, name):
            setattr(transformers.pytorch_utils, name, None)
    import lxt.efficient

    return lxt.efficient


class Functions(dict[str, Any]):
    """A mapping of LXT's attention functions with the interface that transformers 5 expects."""

    get_interface = dict.get


def lxt_llama(spec: str) -> tuple[MakeMap, MakeMap]:
    """Return two functions that compute our map by ``spec`` and that of LXT's AttnLRP on a Llama: input times gradient of the embedded
    tokens.
    """
    module, given = llama(), ids()
    patched: list[bool] = []

    def theirs() -> Tensor:
        if not patched:
            from transformers.models.llama import modeling_llama

            import_lxt().monkey_patch(modeling_llama)
            modeling_llama.ALL_ATTENTION_FUNCTIONS = Functions(modeling_llama.ALL_ATTENTION_FUNCTIONS)
            patched.append(True)
        embedded = module.model.embed_tokens(given).detach().requires_grad_()  # type: ignore[operator, union-attr]
        module(inputs_embeds=embedded, use_cache=False).logits[0, 1].backward()
        return (embedded * embedded.grad).sum(-1)[0].detach()  # type: ignore[no-any-return]

    return ours_of(module, {"input_ids": given, "attention_mask": torch.ones_like(given)}, spec), theirs


def lxt_vit(spec: str) -> tuple[MakeMap, MakeMap]:
    """Return two functions that compute our map by ``spec`` and that of LXT's rules for torchvision's ViTs: CP-LRP in attention, AttnLRP
    around it.
    """
    module, pixels = torchvision_vit(), photo()
    patched: list[bool] = []

    def theirs() -> Tensor:
        if not patched:
            from torchvision.models import vision_transformer

            import_lxt().monkey_patch(vision_transformer)
            patched.append(True)
        kept: list[Tensor] = []
        handle = module.encoder.dropout.register_forward_hook(lambda *args: kept.append(args[2].detach().requires_grad_()) or kept[0])
        module(pixels)[0, 1].backward()
        handle.remove()
        return (kept[0] * kept[0].grad).sum(-1)[0, 1:].detach()  # type: ignore[no-any-return, operator]

    return ours_of(module, {"pixel_values": pixels}, spec), theirs


def torchcam_legrad(spec: str) -> tuple[MakeMap, MakeMap]:
    """Return two functions that compute our map by ``spec`` and that of TorchCAM's LeGrad on the last two blocks of torchvision's ViT; both
    are scaled from 0 to 1.
    """
    from torchcam.methods import LeGrad

    module, pixels = torchvision_vit(), photo()

    def theirs() -> Tensor:
        with LeGrad(module, list(module.encoder.layers)[-2:]) as cam:  # type: ignore[arg-type]
            logits = module(pixels.clone().requires_grad_())
            maps: Tensor = cam(1, logits)[0]
        return maps.flatten().detach()

    ours = ours_of(module, {"pixel_values": pixels}, spec)

    def stretched() -> Tensor:
        scores = ours()
        return (scores - scores.min()) / (scores.max() - scores.min())

    return stretched, theirs


REVIEW = "A dull script, and yet I laughed: what a wonderful, warm film!"


def transformers_interpret(spec: str) -> tuple[MakeMap, MakeMap]:
    """Return two functions that compute our map by ``spec`` and that of transformers-interpret's Integrated Gradients of the embedded
    review classifier, 50 steps.

    Theirs goes from the embedding of padding to the word embeddings, ours from zero to the tokens that enter the first block, so that they
    agree only in part. Both have length one.
    """
    from transformers_interpret import SequenceClassificationExplainer

    model = explainers.load("reviews-bert", device="cpu")
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "explainers" / "embedded" / "models" / "reviews-bert")
    explainer = SequenceClassificationExplainer(model.module, tokenizer)

    def theirs() -> Tensor:
        return torch.tensor([score for _, score in explainer(REVIEW, index=1)])

    return lambda: nn.functional.normalize(explainers.explain(model, REVIEW, 1, [spec])[spec].scores, dim=0), theirs


def inseq_llama(spec: str) -> tuple[MakeMap, MakeMap]:
    """Return two functions for a causal Llama that reads 100 words. Both explain the logit of the next word: the first computes our map by
    ``spec``, the second Inseq's input times gradient.
    """
    import inseq
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, 1000)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special)
    torch.manual_seed(0)
    size = {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8}
    config = transformers.LlamaConfig(vocab_size=1000, pad_token_id=2, attn_implementation="eager", **size)
    module = transformers.LlamaForCausalLM(config).eval()
    text = " ".join(f"w{3 + 37 * i % 900}" for i in range(100))
    theirs_of = inseq.load_model(module, "input_x_gradient", tokenizer=tokenizer)

    def theirs() -> Tensor:
        found = theirs_of.attribute(text, f"{text} w5", attributed_fn="logit", show_progress=False, pretty_progress=False)
        scores: Tensor = found.sequence_attributions[0].target_attributions[:100, 0].sum(-1)
        return scores

    given = tokenizer(text, return_tensors="pt")
    return ours_of(LastWord(module), {"input_ids": given["input_ids"], "attention_mask": given["attention_mask"]}, spec, 5), theirs


class LastWord(nn.Module):
    """A causal language model, ``module``, reduced to the logits of the word after the last."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the logits (B, vocabulary) of the word after ``input_ids`` (B, S), with their ``attention_mask`` (B, S)."""
        logits: Tensor = self.module(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits[:, -1]
        return logits


def quantus_pixel_flipping(spec: str) -> tuple[MakeMap, MakeMap]:
    """Return two functions that compute our curve and that of Quantus's pixel flipping (``spec`` is not used): logits while the picture
    turns black in the order of a random map, in 42 steps.

    Theirs counts colours separately, so that patches are whole at every third step, and these are compared. Ours are those of the deletion
    curve, which share passes.
    """
    import quantus

    from explainers.models.removal.patches import patch_removal

    module, pixels = vit(), photo()
    scores = torch.rand(196, generator=torch.Generator().manual_seed(0))
    large = scores.view(14, 14).repeat_interleave(16, 0).repeat_interleave(16, 1)[None, None]
    model, order = explainers.wrap(module, kind="image"), scores.argsort(descending=True)
    flipping = quantus.PixelFlipping(features_in_step=3584, perturb_baseline=-1.0, normalise=False, disable_warnings=True)

    def theirs() -> Tensor:
        with torch.no_grad():
            curves = flipping(model=module, x_batch=pixels.numpy(), y_batch=[1], a_batch=large.numpy(), device="cpu", softmax=False)
        return torch.tensor(curves[0])[2::3]

    def ours() -> Tensor:
        keep = torch.ones(42, 196, dtype=torch.bool)
        for step in range(42):
            keep[step, order[: 14 * (step + 1) // 3]] = False
        return patch_removal(model, {"pixel_values": pixels}, (14, 14), "black").logits(keep)[2::3, 1]

    return ours, theirs


ROWS: dict[str, Row] = {
    "Captum: saliency": Row("saliency?at=pixels", captum_saliency),
    "Captum: Integrated Gradients, 10 steps": Row("integrated_gradients?steps=10", captum_integrated),
    "pytorch-grad-cam: Grad-CAM": Row("pytorch_grad_cam", grad_cam("GradCAM")),
    "pytorch-grad-cam: HiResCAM": Row("pytorch_grad_cam?cam=hirescam", grad_cam("HiResCAM")),
    "LXT: AttnLRP, Llama": Row("input_x_gradient:attnlrp", lxt_llama, patches=True),
    "LXT: CP-LRP, ViT": Row("input_x_gradient:cp-lrp", lxt_vit, patches=True),
    "TorchCAM: LeGrad": Row("legrad", torchcam_legrad),
    "Inseq: Input × Gradient": Row("input_x_gradient", inseq_llama),
    "Quantus: pixel flipping, 42 steps": Row("deletion curve, black", quantus_pixel_flipping),
    "transformers-interpret: Integrated Gradients, 50 steps": Row("integrated_gradients?steps=50", transformers_interpret),
}


def measure(row: Row) -> dict[str, Any]:
    """Measure both sides of ``row``, a comparison with a peer; return the seconds and megabytes of each, the correlation and the largest
    difference.
    """
    torch.set_num_threads(1)
    ours, theirs = row.make(row.ours)
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    memory, maps = {}, {}

    def time_of(side: str, make: MakeMap) -> None:
        started = time.process_time()
        maps[side] = make()
        times[side].append(time.process_time() - started)

    sides = {"ours": ours, "theirs": theirs}
    if row.patches:
        for side, make in sides.items():
            for _ in range(1 + RUNS):
                time_of(side, make)
            memory[side] = count_operators(make)[1]
    else:
        for _ in range(1 + RUNS):
            for side, make in sides.items():
                time_of(side, make)
        memory = {side: count_operators(make)[1] for side, make in sides.items()}
    one, other = (maps[side].double() for side in sides)
    return {
        "seconds": {side: sum(taken[1:]) / RUNS for side, taken in times.items()},
        "MB": {side: round(size / 1e6) for side, size in memory.items()},
        "correlation": float(torch.corrcoef(torch.stack([one, other]))[0, 1]),
        "difference": float((one - other).abs().max() / other.abs().max()),
    }


def environment(folder: Path) -> Path:
    """Return the Python interpreter of the peers' environment in ``folder``, which is created where there is none: our packages below,
    theirs above.
    """
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (folder / "made").exists():
        venv.create(folder, symlinks=True)
        (site,) = folder.glob("[lL]ib/**/site-packages")
        site.joinpath("below.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")) + "\n")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", REQUIREMENTS], check=True)
        (folder / "made").touch()
    return python


def main() -> None:
    """Measure each row in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="parts of the names of rows (default: all)")
    parser.add_argument(
        "--env", type=Path, default=ROOT / "build" / "peers", metavar="DIR", help="their environment (default: build/peers)"
    )
    parser.add_argument("--one", choices=ROWS, help=argparse.SUPPRESS)  # what a process of a row is asked
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(ROWS[args.one])))
        return
    python = environment(args.env)
    print("| theirs | ours | theirs, s | ours, s | ours / theirs | MB, theirs | MB, ours | correlation | difference |")
    print("|---|---|---|---|---|---|---|---|---|")
    failed = dict(NOT_MEASURED)
    for name in (name for name in ROWS if not args.rows or any(part in name for part in args.rows)):
        done = subprocess.run([python, "-m", "benchmarks.peers", "--one", name], capture_output=True, text=True, check=False)
        if done.returncode:
            failed[name] = done.stderr.strip().splitlines()[-1]
            continue
        row = json.loads(done.stdout.strip().splitlines()[-1])
        seconds, memory = row["seconds"], row["MB"]
        print(
            f"| {name} | `{ROWS[name].ours}` | {seconds['theirs']:.2f} | {seconds['ours']:.2f} | {seconds['ours'] / seconds['theirs']:.2f} "
            f"| {memory['theirs']} | {memory['ours']} | {row['correlation']:.4f} | {row['difference']:.1e} |",
            flush=True,
        )
    for name, reason in failed.items():
        print(f"- {name}: not measured: {reason}")


if __name__ == "__main__":
    main()
