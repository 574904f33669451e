"""Vitrine on a GPU, in one command of under five minutes: ``python -m benchmarks.gpu [--out FOLDER] [--seconds 270]``.

It prints one table first: whether maps equal those of the CPU, panels a second at batch 1 and 64, memory, the time to the first map by
HTTP. What that is made of follows:

1. *correct*: maps on the GPU against those on the CPU: the models of ``tests/golden`` and the embedded models of pictures, in float32, with
   TF32, in bfloat16 and in float16. Of each method the largest difference, as a share of the largest score, and the rank correlation.
2. *server*: how many panels a second clients get of ``vitrine serve``.
3. *speed*: rules alone, the default panel, Transformer Attribution, Integrated Gradients and a deletion test, of four models in three sizes
   of batch; for comparison forward and backward, and Captum where it is installed. Seconds, inputs a second, memory, launches.

It needs torch, timm, transformers and what ``explainers`` imports; the second part also what the server needs. What does
not run is named with its reason, and what the time does not reach, too. ``gpu.json`` has everything, ``gpu.md`` the tables.
``--device cpu --tiny`` runs all of it at sizes that say nothing.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import explainers

# isort: split
import timm
import transformers

from tests.explainers.support.golden import Case
from tests.explainers.support.golden_rows import ROWS

RULES = ("gradient", "libra", "conservative", "attnlrp")
PHOTO = Path(__file__).parents[1] / "explainers" / "embedded" / "samples" / "photos" / "cat.jpg"
RUNS = 3  # number of runs whose median is taken
PARTS = ("correct", "server", "speed")  # the one that uses all remaining time comes last
MAX_DIFFERENCE = 1e-4  # of maps in float32 from those of the CPU, as a share of the largest score
BATCHES = (1, 64, 8)
PANEL_MODEL = "ViT-B/16"
#: The modes in which maps are compared: the type of the weights, and the ``precision`` that is asked for.
MODES = {
    "float32": (torch.float32, "auto"),
    "TF32": (torch.float32, "tf32"),
    "bfloat16": (torch.bfloat16, "auto"),
    "float16": (torch.float16, "auto"),
}


@dataclass
class Report:
    """The measurements so far; they are written after each step, so that a run that ends early is not lost.

    device   where the models run
    is_tiny  whether sizes say nothing, to try the command
    ends     time of the monotonic clock after which no step begins
    rows     part -> what was measured -> its figures by name
    missing  name of a step that failed -> its error
    """

    device: torch.device
    is_tiny: bool
    ends: float  # time of the monotonic clock after which no step begins
    rows: dict[str, dict[str, dict[str, Any]]] = field(default_factory=lambda: {part: {} for part in PARTS})
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def served_model(self) -> str:
        """The embedded model that is asked by HTTP; for a dry run the smallest."""
        return "scenes-vit" if self.is_tiny else "photos-vit"

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Catch any error inside this context and record it as the reason why ``name`` is missing."""
        try:
            yield
        except Exception as error:
            self.missing[name] = f"{type(error).__name__}: {error}"[:300]
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def check_time(self) -> None:
        """Raise TimeoutError where no further step shall be begun."""
        if time.monotonic() > self.ends:
            raise TimeoutError("there was no time left")

    def to_json(self) -> dict[str, Any]:
        """Return all measurements, with the device and the versions of the libraries."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        on = {"device": name, "tiny": self.is_tiny, "torch": torch.__version__, "cuda": torch.version.cuda, "timm": timm.__version__}
        return {"on": on | {"transformers": transformers.__version__}, **self.rows, "missing": self.missing}

    def summary(self) -> list[str]:
        """Return the lines of a table of all measurements as text: "not measured" for each that did not run."""
        lines = ["| what | measured |", "|---|---|"]
        for mode in MODES:
            found = [
                (row["difference"], f"{method}, {name.removesuffix(f', {mode}')}")
                for name, methods in self.rows["correct"].items()
                if name.endswith(f", {mode}")
                for method, row in methods.items()
            ]
            worst, where = max(found, default=(None, ""))
            verdict = ""
            if worst is not None and mode == "float32":
                verdict = ": equal" if worst <= MAX_DIFFERENCE else f": MORE THAN {MAX_DIFFERENCE:g}"
            words = "not measured" if worst is None else f"{worst:.1e} of the largest score at most ({where}){verdict}"
            lines.append(f"| maps against the CPU's, {mode} | {words} |")
        for batch in (1, 64):
            panel = self.rows["speed"].get(f"{PANEL_MODEL}, batch {batch}", {}).get("default panel", {})
            for what, key in (("panels a second", "inputs a second"), ("peak memory, MB", "peak MB")):
                lines.append(f"| {what}, {PANEL_MODEL}, batch {batch} | {panel.get(key) or 'not measured'} |")
        first = self.rows["server"].get(self.served_model, {}).get("first map", {}).get("seconds", "not measured")
        lines.append(f"| seconds to the first map by HTTP, {self.served_model} | {first} |")
        return lines

    def to_markdown(self) -> str:
        """Return a Markdown table for each part; of compared maps a row shows the worst method."""
        document = self.to_json()
        lines = [", ".join(f"{key} {value}" for key, value in document["on"].items()), "", *self.summary(), ""]
        if document["correct"]:
            lines += ["| model | mode | methods | largest difference | least rank correlation |", "|---|---|---|---|---|"]
        for name, methods in document["correct"].items():
            worst = max(methods, key=lambda method: methods[method]["difference"])
            rank = min(row["rank correlation"] for row in methods.values())
            lines.append(f"| {name.replace(', ', ' | ')} | {len(methods)} | {methods[worst]['difference']:.1e} ({worst}) | {rank:.4f} |")
        for part in ("server", "speed"):
            for name, row in document[part].items():
                lines.append(f"\n**{part}: {name}**\n\n| what | " + " | ".join(next(iter(row.values()))) + " |")
                lines.append("|---" * (1 + len(next(iter(row.values())))) + "|")
                lines += [f"| {what} | " + " | ".join(f"{value}" for value in numbers.values()) + " |" for what, numbers in row.items()]
        if document["missing"]:
            lines += ["", "Not measured:", "", *(f"- {name}: {why}" for name, why in document["missing"].items())]
        return "\n".join(lines) + "\n"


# --- the same maps -------------------------------------------------------------------------------------------------------


def on_device(inputs: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return ``inputs``, the tensors of a model by name, on ``device``."""
    return {name: value.to(device) for name, value in inputs.items()}


def agreement(ours: Tensor, theirs: Tensor) -> dict[str, float]:
    """Return the largest difference of two maps of one shape, ``ours`` and ``theirs``, as a share of the largest score of the first, and
    their rank correlation, by name.
    """
    one, other = ours.double().flatten().cpu(), theirs.double().flatten().cpu()
    ranks = torch.stack([values.argsort().argsort().double() for values in (one, other)])
    correlation = float(torch.corrcoef(ranks)[0, 1]) if len(one) > 1 else 1.0
    return {"difference": float((one - other).abs().max() / one.abs().max().clamp(min=1e-30)), "rank correlation": correlation}


def compare(
    report: Report, name: str, module: nn.Module, open_: Callable[[nn.Module, str], Any], ask: Callable[[Any, str, str], list[Any]]
) -> None:
    """Explain with a copy of ``module`` on the CPU in float32, and with one on the device in each mode, and record the agreement in
    ``report`` under ``name`` and the mode.

    ``open_`` makes a model of a module and a device; ``ask`` returns the maps of such a model on a device in a precision, with the method
    of each.
    """
    theirs = None
    for mode, (dtype, precision) in MODES.items():
        with report.step(f"{name}, {mode}"):
            report.check_time()
            theirs = theirs or ask(open_(copy.deepcopy(module).float(), "cpu"), "cpu", "auto")
            ours = ask(open_(copy.deepcopy(module).to(report.device, dtype), str(report.device)), str(report.device), precision)
            pairs = {one.method: agreement(one.scores, other.scores) for one, other in zip(theirs, ours, strict=True)}
            report.rows["correct"][f"{name}, {mode}"] = pairs


def correct(report: Report) -> None:
    """Compare the maps on the device and on the CPU of the models of the golden cases, and of the embedded ones, and record their agreement
    in ``report``.
    """
    cases = [name for name, rows in ROWS.items() if rows]
    for name in cases[:2] if report.is_tiny else cases:
        with report.step(name):
            case = Case(name, torch.float32)
            methods = [row.method for row in ROWS[name].values()]

            def ask(model: Any, device: str, precision: Any, case: Case = case, methods: list[Any] = methods) -> list[Any]:
                given = on_device(case.inputs, torch.device(device))
                return explainers.explain(model, given, case.target, methods, precision=precision).maps

            compare(report, name, case.module, lambda module, device: explainers.wrap(module, device=device), ask)
    for name in () if report.is_tiny else ("scenes-vit", "photos-vit"):
        with report.step(name):
            model = explainers.load(name, device="cpu")
            tensors = model.tensors([PHOTO])
            target = explainers.explain(model, tensors, methods=["random"]).targets[0].label

            def ask_panel(
                opened: Any, device: str, precision: Any, tensors: dict[str, Tensor] = tensors, target: str = target
            ) -> list[Any]:
                given = on_device(tensors, torch.device(device))
                return explainers.explain(opened, given, target, explainers.default_methods(opened), precision=precision).maps

            labels = model.labels
            compare(report, name, model.module, lambda module, device: explainers.wrap(module, labels=labels, device=device), ask_panel)  # noqa: B023


# --- how fast ------------------------------------------------------------------------------------------------------------


def vit(name: str, is_tiny: bool, **options: Any) -> tuple[nn.Module, Callable[[int], dict[str, Tensor]]]:
    """Return the model ``name`` of timm with random weights (a small one if ``is_tiny``; ``options`` are further arguments), and a function
    from a batch size to random inputs.
    """
    small: dict[str, Any] = {"embed_dim": 48, "depth": 2, "num_heads": 4, "img_size": 32, "num_classes": 10} if is_tiny else {}
    module = timm.create_model(name, pretrained=False, **(options | small))
    side = 32 if is_tiny else module.default_cfg["input_size"][-1]
    return module, lambda batch: {"pixel_values": torch.randn(batch, 3, side, side)}


def bert(is_tiny: bool) -> tuple[nn.Module, Callable[[int], dict[str, Tensor]]]:
    """Return BERT-base with random weights (a small one if ``is_tiny``), and a function from a batch size to random inputs of 512
    tokens.
    """
    small = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96} if is_tiny else {}
    module = transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=2, **small))
    length = 16 if is_tiny else 512

    def noise(batch: int) -> dict[str, Tensor]:
        mask = torch.ones(batch, length, dtype=torch.long)
        return {"input_ids": torch.randint(1000, 20000, (batch, length)), "attention_mask": mask}

    return module, noise


def models(is_tiny: bool) -> dict[str, Callable[[], tuple[nn.Module, Callable[[int], dict[str, Tensor]]]]]:
    """Return functions that build the models that are timed (small ones if ``is_tiny``), by name, the most requested first."""
    return {
        "ViT-B/16": lambda: vit("vit_base_patch16_224", is_tiny),
        "BERT-base, 512 tokens": lambda: bert(is_tiny),
        "ViT-L/16": lambda: vit("vit_large_patch16_224", is_tiny),
        "CLIP ViT-L/14 at 336, its image side": lambda: vit("vit_large_patch14_clip_336", is_tiny, num_classes=1000),
    }


def plain_pass(model: Any, given: dict[str, Tensor]) -> None:
    """Run the forward pass of ``model`` on the tensors ``given``, and torch's backward pass to the inputs of its blocks."""
    entered: list[Tensor] = []

    def keep(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        entered.append(args[0].detach().requires_grad_())
        return (entered[0], *args[1:])

    handle = model.entry.register_forward_pre_hook(keep)
    try:
        logits = model.forward(given)
    finally:
        handle.remove()
    torch.autograd.grad(logits[:, 1].sum(), entered[0])


def captum_gradients(model: Any, given: dict[str, Tensor]) -> None:
    """Run Captum's Integrated Gradients of ``model`` on the pictures in ``given``, 50 steps, eight at a time."""
    from captum.attr import IntegratedGradients

    pixels = given["pixel_values"]
    IntegratedGradients(lambda values: model.forward({"pixel_values": values})).attribute(
        pixels, target=1, n_steps=50, internal_batch_size=8 * len(pixels)
    )


def acts_of(model: Any, given: dict[str, Tensor]) -> dict[str, Callable[[], Any]]:
    """Return the calls that are timed of ``model`` and one batch of tensors, ``given``, by name."""

    def explained(*methods: str) -> Callable[[], Any]:
        return lambda: explainers.explain(model, given, 1, list(methods))

    acts: dict[str, Callable[[], Any]] = {"forward and backward": lambda: plain_pass(model, given)}
    acts |= {
        f"input_x_gradient:{rule}": explained(f"input_x_gradient:{rule}" if rule != "gradient" else "input_x_gradient") for rule in RULES
    }
    acts["transformer_attribution"] = explained("transformer_attribution")
    acts["default panel"] = explained(*explainers.default_methods(model))
    acts["integrated_gradients?steps=50"] = explained("integrated_gradients?steps=50")
    if len(next(iter(given.values()))) == 1:
        ranked = explainers.explain(model, given, 1, ["rollout"])
        acts["deletion test of one map"] = lambda: explainers.deletion_test(model, ranked)
    if "pixel_values" in given:
        acts["Captum: Integrated Gradients, 50 steps"] = lambda: captum_gradients(model, given)
    return acts


def measure_call(act: Callable[[], Any], device: torch.device, batch: int, plain: float | None) -> dict[str, Any]:
    """Return, by name, the median time of a few runs of ``act`` after one that warms up, for a batch of ``batch`` inputs, also in units of
    ``plain``, the seconds of a plain pass; on a GPU also memory and kernel launches of one more run.
    """
    has_gpu = device.type == "cuda"

    def timed() -> float:
        start = time.perf_counter()
        act()
        if has_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    timed()
    if has_gpu:
        torch.cuda.reset_peak_memory_stats()
    seconds = statistics.median(timed() for _ in range(RUNS))
    row: dict[str, Any] = {
        "ms": round(seconds * 1000, 2),
        "plain passes": round(seconds / plain, 2) if plain else 1.0,
        "inputs a second": round(batch / seconds, 1),
        "peak MB": round(torch.cuda.max_memory_allocated() / 1e6) if has_gpu else None,
    }
    return row | (launches(act, seconds) if has_gpu else {"launches": None, "synchronisations": None, "share of time in kernels": None})


def launches(act: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Return, by name, how many kernels one run of ``act``, which takes ``seconds``, starts on the GPU, how often it waits for them, and
    the share of its time that they take.
    """
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        act()
        torch.cuda.synchronize()
    events = profiled.key_averages()
    in_kernels = sum(event.self_device_time_total for event in events) / 1e6
    return {
        "launches": sum(event.count for event in events if "LaunchKernel" in event.key),
        "synchronisations": sum(event.count for event in events if "Synchronize" in event.key),
        "share of time in kernels": round(in_kernels / seconds, 2),
    }


def speed(report: Report) -> None:
    """Time every call of every model in every batch size, and record the rows in ``report``."""
    for batch in (1,) if report.is_tiny else BATCHES:
        for name, make in list(models(report.is_tiny).items())[: 2 if report.is_tiny else None]:
            tag = f"{name}, batch {batch}"
            with report.step(tag):
                report.check_time()
                torch.manual_seed(0)
                module, noise = make()
                module = module.to(report.device).eval().requires_grad_(False)
                model = explainers.wrap(module, device=report.device)
                rows: dict[str, dict[str, Any]] = {}
                plain = None
                for what, act in acts_of(model, on_device(noise(batch), report.device)).items():
                    with report.step(f"{tag}: {what}"):
                        report.check_time()
                        rows[what] = measure_call(act, report.device, batch, plain)
                        plain = plain or rows[what]["ms"] / 1000
                if rows:
                    report.rows["speed"][tag] = rows


# --- the server ----------------------------------------------------------------------------------------------------------


def serve(report: Report) -> None:
    """Measure how fast a server answers clients that ask for the default panel of their own pictures, and record it in ``report``."""
    with report.step("server"):
        from benchmarks.start import is_ready, run_server

        with run_server(str(report.device)) as (_, port):
            while not is_ready(port, "ready"):
                report.check_time()
                time.sleep(0.2)
            address, model = f"http://127.0.0.1:{port}", report.served_model
            report.rows["server"][model] = {"first map": {"seconds": first_map(address, model)}}
            for count in (1, 2) if report.is_tiny else (1, 16):
                with report.step(f"server, {count} clients"):
                    report.check_time()
                    row = measure_clients(address, model, count, seconds=1 if report.is_tiny else 20)
                    report.rows["server"].setdefault(f"{model}, clients", {})[f"clients: {count}"] = row


def first_map(address: str, model: str) -> float:
    """Return the median time in seconds from sending a picture to ``model`` on the server at ``address`` to having its first map, of a few
    pictures after one that warms up.
    """
    import httpx

    from benchmarks.load import picture

    seconds = []
    with httpx.Client(base_url=address, timeout=120) as http:
        for turn in range(1 + RUNS):
            began = time.perf_counter()
            fields = {"model": model, "methods": ["input_x_gradient"]}
            http.post("api/explanations?wait=1", data=fields, files={"image": picture(0, turn)}).raise_for_status()
            seconds.append(time.perf_counter() - began)
    return round(statistics.median(seconds[1:]), 3)


def measure_clients(address: str, model: str, clients: int, seconds: float) -> dict[str, Any]:
    """Return panels a second, and the median wait of a client in seconds, with ``clients`` clients that ask ``model`` on the server at
    ``address`` at once for ``seconds``. Raises RuntimeError if none got an answer.
    """
    from benchmarks import load

    arguments = argparse.Namespace(address=address, model=model, methods=[])
    answers, over = load.Report(), threading.Event()
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        asked = [pool.submit(load.ask, 1000 * clients + client, arguments, over, answers) for client in range(clients)]
        over.wait(seconds)
        over.set()
    for one in asked:
        one.result()
    if not answers.waits:
        raise RuntimeError(f"no client got an answer: {dict(answers.statuses)}")
    passed = time.perf_counter() - began  # the last answers come later than the end of the seconds
    row = {"panels a second": round(len(answers.waits) / passed, 2), "median wait, s": round(statistics.median(answers.waits), 3)}
    return row | {"answers": dict(answers.statuses)}


def main() -> None:
    """Run the parts that ``--parts`` names, write ``gpu.json`` and ``gpu.md`` to the folder of ``--out`` after each part, and print the
    report.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("build") / "gpu", help="folder of gpu.json and gpu.md (default build/gpu)")
    parser.add_argument("--seconds", type=float, default=270, help="after these no step is begun (default 270)")
    parser.add_argument("--tiny", action="store_true", help="sizes that say nothing, to try the command")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    report = Report(torch.device(arguments.device), arguments.tiny, time.monotonic() + arguments.seconds)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for part, act in zip(PARTS, (correct, serve, speed), strict=True):
        if part in arguments.parts:
            act(report)
            (arguments.out / "gpu.json").write_text(json.dumps(report.to_json(), indent=1), "utf-8")
            (arguments.out / "gpu.md").write_text(report.to_markdown(), "utf-8")
    print(report.to_markdown())


if __name__ == "__main__":
    main()
