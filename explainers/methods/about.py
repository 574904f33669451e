"""The form of what a page says about a method, the symbols of the formulas, and sentences that several methods share.

The words themselves stand at each method, as ``about=`` of its ``@method``. A formula is written in a small part of TeX, one string a line.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """The text of a method's page: its formula and what it computes, when to trust it, where it fails.

    formula  lines of TeX; their letters are explained in :data:`SYMBOLS`
    words    what it computes
    trust    when to believe it
    fails    what is known against it, with the source
    line     one line for people who see its map for the first time
    """

    formula: tuple[str, ...]
    words: str
    trust: str
    fails: str
    line: str


#: What a rule changes, for people who see a map under it for the first time; the ordinary gradient changes nothing.
RULES_IN_A_LINE = {
    "libra": "Libra: parts that cancel each other are left out.",
    "conservative": "Ali et al.: where the model looks is taken as given.",
    "attnlrp": "AttnLRP: where two signals are multiplied, each gets half of the credit.",
    "deep_taylor": "Deep Taylor: only what speaks for the answer gets credit.",
    "lrp": "LRP: credit is shared as first published.",
    "attnlrp-epsilon": "AttnLRP, damped where numbers are tiny.",
    "cp-lrp": "CP-LRP: where the model looks, and how far its gates are open, is taken as given.",
    "cp-lrp-gamma": "CP-LRP: what pushes the same way as the result gets more credit.",
    "pa-lrp": "PA-LRP: what pushes the same way as the result gets more credit.",
    "gim": "GIM: parts that stand in for each other all get credit, and multiplied signals get half each.",
    "cut-attention": "No signal goes back through attention.",
}


#: The meanings of the letters in formulas; a page shows those that its formula has.
SYMBOLS = {
    "s": "score of token j, a part of the input",
    "f": "the explained number: a logit, a probability, a difference of two logits, or the likeness of image and prompt",
    "x": "the tokens where block l begins, one vector of d = 1, 2, … numbers each; at l = 1 they are the embedded parts of the input",
    "y": "the tokens where block l ends",
    "A": "attention of block l: how much of token j head h takes into token i",
    r"\bar{A}": "attention, mean of the heads",
    r"\nabla": "the signal that came back from f to what follows it: the gradient under the rule in force",
    "R": "the relevance that came back from f under a rule that carries relevance",
    "c": "the token that the answer is read from: the classification token",
    "I": "the identity: what stays where it is",
    "H": "how many heads a block has",
    "L": "how many blocks there are; block L is the last",
    "E": "what a patch shows: its embedding before its position is added",
    "P": "where a patch is: its position embedding",
    "z": "a token as it enters the model: what the patch shows plus where it is; of Grad-CAM, after the first norm of a block",
    "p": "a pixel of the patch; of masks, the probability of the answer with a mask",
    "n": "how many pixels a patch has; of RefineCAM, a map stretched to the range from 0 to 1",
    "b": "a bias of the model, where it acts on a token",
    "t": "the prompt, as the model's own text side embeds it",
    "q": "the queries of the last block: what a token looks for",
    "u": "queries, keys and values, of length one",
    "w": "a weight: of a prompt by how well it fits the whole image, or of a pair of patches by how near they are",
    "K": "how many masks there are",
    "k": "the keys of the last block, or the number of a mask",
    "M": "a mask: 1 where the picture is shown, 0 where it is hidden",
    "T": "how sharply tokens are told apart",
    "m": "a random masking: 1 where a token is kept, 0 where it is hidden; of RefineCAM, the map of a block",
    r"\odot": "number by number",
    "e": "the attention score of block l before its softmax: how well the key of token j fits the query of token i in head h",
    r"\sigma": "the sigmoid, which maps any number to one between 0 and 1",
}

ATTENTION_FAILS = (
    "Attention says where a block looks, not what it takes from there, and other attention maps can give the same answer "
    "(Jain & Wallace 2019, arXiv 1902.10186)."
)
AGNOSTIC = "It never sees which class is asked about, so it cannot tell the evidence for one answer from that for another."
HIDING = (
    "The model was not trained on inputs with holes, so part of what this measures is the surprise of the hole (Hooker et al. 2019, "
    "arXiv 1806.10758)."
)
BREAKS = (
    "With the ordinary gradient, softmax and LayerNorm make parts cancel, and the sum drifts away from the answer (Ali et al. 2022, "
    "arXiv 2202.07304; Mehri et al. 2025)."
)
#: Said where input times ordinary gradient is zero but for the epsilon of a normalisation: ``where``, and by which ``method``.
EPSILON = (
    "Its output does not change with the size of what it takes, so that input times ordinary gradient is zero{where} but for the epsilon "
    "of the normalisation: the map shows that epsilon, not where the answer comes from. {method}:libra holds the normalisation constant, "
    "and is not zero."
)

LAYERS = (
    "The sum over blocks counts the same evidence once a block: read it as a ranking, not as shares of the answer (LibraGrad's own "
    "definition; only FullGrad is complete)."
)
CANCELS = (
    "Relevance of opposite sign can nearly cancel, and what is left is divided by almost nothing: digits are lost. Here it runs in float64 "
    "where float32 would have changed the map, and the map says so."
)

PATCHES_ALONE = (
    "Its scores are cosines of patches with the prompt, not shares of the model's score: it says how like the prompt a patch is, and the "
    "answer is read from another token, after the attention that is replaced here. Cosines of this kind differ little, so only their "
    "order can be compared."
)
