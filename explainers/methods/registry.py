"""The registry of methods: each is declared at its function, with what the model must have and what its scores promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from explainers.autograd.rules import RULES
from explainers.autograd.signals import ALL, fields_of
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.about import About
from explainers.methods.class_attention import ClassAttentionUse
from explainers.methods.declaration import Method, MethodFunction, Name, Promise, Refusal
from explainers.methods.families import METHOD_FAMILIES, OTHER
from explainers.methods.specs import Option, Spec

#: The rules that a method of gradients takes besides the ordinary gradient.
GRADIENT_ALSO = ("libra", "conservative", "attnlrp")


#: A dict of every declared method by its name, in the order in which lists show them.
METHODS: dict[str, Method] = {}
#: Option of methods of gradients: take gradients along a path instead of at the input (general gradients, in LibraGrad's words).
INTEGRATED = Option(
    int, 0, "average the gradients over so many steps of the path from zero to the embedded tokens; 0: take them at the input", 0, 1000
)
#: Option of methods that start from the token which the head reads.
ROW = Option(
    str,
    None,
    "if the head pools all tokens: start from the classification token nevertheless, or take the mean over all tokens",
    choices=("class_token", "mean"),
)
#: The same, of methods that start from one token alone.
TOKEN_ROW = replace(ROW, help="if the head pools all tokens: start from the classification token nevertheless", choices=("class_token",))
#: What a method may need of a model: a dict from the name of the need, such as ``class_token``, to what it is, in words.
METHOD_NEEDS = {
    "attention": "attention maps over all tokens",
    "one_attention": "one attention in each block",
    "token_order": "tokens that keep their places from block to block",
    "places": "tokens that are of places in the picture",
    "inner_order": "tokens that keep their places inside the blocks",
    "product": "maps that can be multiplied from block to block",
    "own_tokens": "blocks that put no other tokens in the places of their own",
    "class_token": "a classification token",
    "residual": "attention added to a residual stream",
    "parts": "queries, keys and values of the last block",
    "scores": "attention weights that are a softmax of scores",
    "attention_input": "attention whose queries, keys and values are made of one row of tokens",
    "positions": "position embeddings added to the patches",
    "image": "an image",
    "patch_features": "patches that its head can read in place of a classification token, to compare them with prompts",
    "prompts": "pictures compared with prompts",
    "boxes": "boxes with a class each",
    "mask_token": "for texts, a mask token to hide words with",
}
#: Which of these are read of tokens of later blocks than the first, and the fields of signals that are not.
_OF_LATER_BLOCKS = {"attention", "one_attention", "residual", "parts", "attention_input", "patch_features"}
#: Which of them, and which fields, are read of tokens inside blocks.
_INSIDE_BLOCKS = {"residual", "parts", "attention_input"}
_OF_FIRST_TOKENS = {"block_inputs[0]", "placed", "pixels"}


def method(
    name: str,
    *,
    title: str,
    family: str = OTHER,
    classic: bool = False,
    source: Citation | None = None,
    by: str = "",
    year: int | None = None,
    paper: str = "",
    rule: str | None,
    also: tuple[str, ...] = (),
    signed: bool,
    class_specific: bool = True,
    needs: tuple[str, ...] = (),
    passes: str = "1 forward, 1 backward",
    slow: bool = False,
    default: bool = False,
    promise: Promise | None = None,
    summed: bool = False,
    pixels: bool = False,
    named: Mapping[str, Name] | None = None,
    options: Mapping[str, Option] | None = None,
    refuses: Refusal | None = None,
    class_attention: ClassAttentionUse | None = None,
    two_rows: bool = False,
    by_rows: bool = False,
    reads: Iterable[str] = ALL,
    reads_under: Mapping[str, Iterable[str]] | None = None,
    about: About | None = None,
) -> Callable[[MethodFunction], MethodFunction]:
    """Return a decorator that declares a method called ``name``: it is put on a function from a :class:`Trace` (and its options) to scores
    (B, S), and the first line of that function's docstring describes it. The decorator returns the function unchanged.

    title           its name for people; ``family`` is its kind, a key of :data:`explainers.methods.families.METHOD_FAMILIES`
    source          its publication; ``by``, ``year`` and ``paper`` are a short way to write one
    rule            the backward rule that it runs under by default, by name; None if it reads no signal. ``also`` names further rules
    signed          whether its scores tell evidence for the target from evidence against it
    class_specific  whether another target can have another map
    needs           what the model must have: keys of :data:`explainers.methods.METHOD_NEEDS`
    passes          what one explanation costs, in words; ``slow`` leaves it out of the preset of quick methods
    promise         what its scores add up to; None: they are no shares of the explained number
    options         its options by name; ``about`` is the text of its page
    classic, default, summed, pixels, named, refuses, class_attention, reads, reads_under, two_rows, by_rows  fields of :class:`Method`

    Raises ExplainerError if a source is given in both ways, for a name that is taken, and for a rule, need or family that does not exist.
    """
    if source is not None and (by or year is not None or paper):
        raise ExplainerError(f"Method {name} has both source= and by=, year= or paper=: write authors, year and title into source alone.")
    published = Citation(authors=by, year=year, title=paper) if source is None else source

    def declare(function: MethodFunction) -> MethodFunction:
        promised = () if promise is None else promise.rules
        for known in (*(() if rule is None else (rule,)), *also, *(named or {}), *promised):
            if known not in RULES:
                raise ExplainerError(f"Method {name} names the rule {known!r}, which does not exist.")
        if unknown := set(needs) - set(METHOD_NEEDS):
            raise ExplainerError(
                f"Method {name} needs {', '.join(unknown)}, which no model is asked for; there are {', '.join(METHOD_NEEDS)}."
            )
        if name in METHODS:
            raise ExplainerError(f"There is already a method {name}.")
        if family not in METHOD_FAMILIES:
            raise ExplainerError(
                f"Method {name} names the family {family!r}, which does not exist; there are {', '.join(METHOD_FAMILIES)}."
            )
        description = (function.__doc__ or "").strip().split("\n\n")[0]
        fields = fields_of(reads)
        needed = frozenset(needs)
        if summed or needed & _OF_LATER_BLOCKS or (fields != ALL and not fields <= _OF_FIRST_TOKENS):
            needed |= {"token_order"}
        if (needed | (fields if fields != ALL else set())) & _INSIDE_BLOCKS:
            needed |= {"inner_order"}
        if rule is not None or "token_order" in needed:
            needed |= {"places"}
        METHODS[name] = Method(
            name=name,
            function=function,
            title=title,
            family=family,
            classic=classic,
            source=published,
            rule=rule,
            also=also,
            signed=signed,
            class_specific=class_specific,
            description=" ".join(description.split()),
            needs=needed,
            passes=passes,
            slow=slow,
            default=default,
            promise=promise,
            summed=summed,
            pixels=pixels,
            named=named or {},
            options={**(options or {}), **({"row": ROW} if "class_token" in needs and "row" not in (options or {}) else {})},
            refuses=refuses,
            class_attention=class_attention,
            two_rows=two_rows,
            by_rows=by_rows,
            reads=fields,
            reads_under={rule_name: fields_of(names) for rule_name, names in (reads_under or {}).items()},
            about=about,
        )
        return function

    return declare


def is_control(spec: str) -> bool:
    """Return whether a spec names a control, a method that does not read the input; False for an invalid spec or an unknown method."""
    try:
        method_name = Spec.parse(spec).method
    except ExplainerError:
        return False
    return method_name in METHODS and METHODS[method_name].family == "control"
