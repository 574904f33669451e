"""What the server needs of the engine, as one plain record, so that a test can put a small stand-in in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

#: Tells how far a download is: a line for a person, and the fraction done where it is known.
DownloadProgress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Engine:
    """The functions of ``explainers`` that the server calls, and its registries.

    version          of Vitrine
    fingerprint      changes whenever the numbers may: finished explanations of another one are not used again
    catalogue        known models, embedded ones first: objects with name, kind, title, description, embedded
    check_device     raises ExplainerError for a device that is not there; None is the engine's own choice
    fetch            gets the files of a hub model into the local cache; needs no device, so it may run beside the worker
    load             name, device, and how it is opened as arguments of ``explainers.open`` -> Model, checked where it does not ship inside
    fit_threads      gives the thread that calls it as many CPU threads as the model can use and other processes leave; None: looks only
    explain          as ``explainers.explain``
    default_methods  Model -> specs
    variants         Model or None -> variants as JSON objects, in the order of the pages
    readout_of       spec, number of blocks of the model -> name of its method; raises ExplainerError where the spec is wrong
    distinct         specs, number of blocks of the model -> those that differ in more than their spelling
    for_probability  specs -> those that can explain a probability, and a note on the others or None
    methods          Model or None -> methods as JSON objects
    choosing         name and kind of a model, each or None, and its variants -> families, sets of methods, and how far each can be trusted
    rules            the rules as JSON objects
    kinds            the kinds of operators and the choices that a rule has for each, as JSON objects
    quantities       what can be looked at in the heads of a model, as JSON objects
    mix              as ``explainers.mix``
    head_maps        an input and one target as ``explainers.Session`` takes them, in a dict; options of ``explainers.head_maps``
    contributions    an input and one target in a dict, and a spec -> what each block adds to its map
    interaction      as ``explainers.interaction``
    alike            as ``explainers.alike``
    word_probe       as ``explainers.word_probe``
    card             name -> the model card in Markdown, or None
    overlay          explanation as JSON, one of its maps, the input image or None, longest side -> picture; of its pixels where given
    measurable       kind of a model -> the data sets without download for it, each with the metrics that it allows, as JSON objects
    evaluate         Model, what is measured in a dict, folder of the run, told (done, total), says whether to stop -> whether it ended
    cancelled        the exception that ``explain`` raises when its ``cancelled`` says so
    """

    version: str
    fingerprint: str
    catalogue: Sequence[Any]
    check_device: Callable[[str | None], None]
    fetch: Callable[[str, DownloadProgress], None]
    load: Callable[..., Any]
    fit_threads: Callable[[Any], None]
    explain: Callable[..., Any]
    default_methods: Callable[[Any], list[str]]
    variants: Callable[[Any], list[dict[str, Any]]]
    readout_of: Callable[[str, int], str]
    distinct: Callable[[Sequence[str], int], list[str]]
    for_probability: Callable[[Sequence[str]], tuple[list[str], str | None]]
    methods: Callable[[Any], list[dict[str, Any]]]
    choosing: Callable[[str | None, str | None, Sequence[Mapping[str, Any]]], dict[str, Any]]
    rules: Callable[[], list[dict[str, Any]]]
    kinds: Callable[[], list[dict[str, Any]]]
    quantities: Callable[[], list[dict[str, Any]]]
    mix: Callable[..., Any]
    head_maps: Callable[..., Any]
    contributions: Callable[[Mapping[str, Any], str], Any]
    interaction: Callable[..., Any]
    alike: Callable[..., Any]
    word_probe: Callable[..., Any]
    card: Callable[[str], str | None]
    overlay: Callable[..., Image.Image]
    measurable: Callable[[str], list[dict[str, Any]]]
    evaluate: Callable[[Any, Mapping[str, Any], Path, Callable[[int, int], None], Callable[[], bool]], bool]
    cancelled: type[Exception]
