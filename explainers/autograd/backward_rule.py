"""A rule in people's own code: their forward pass, their loss, their ``torch.autograd.grad``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from explainers.autograd.own_code import RuleBlock, own_code
from explainers.autograd.rules import RULES, Rule, gradient_rules
from explainers.errors import ExplainerError
from explainers.models.eval_mode import without_compilation


@contextmanager
def backward_rule(rule: str | Rule) -> Iterator[RuleBlock]:
    """Make backward passes inside this context follow ``rule``: ``with backward_rule("libra"): (g,) = torch.autograd.grad(f(model(x)),
    x)``.

    Torch calls of the block become operators whose backward asks which rule is in force: in a block its rule, in nested blocks the
    innermost one's, after all blocks the ordinary gradient. So one forward pass serves several rules, and ``loss.backward()`` after the
    block trains as usual. Values equal the model's, except for rounding. The model runs unchanged: in training mode with its dropout, under
    autocast, and with parts under ``torch.no_grad`` as constants. Compiled code runs as it is written.

    With ``create_graph=True`` the gradient is itself a function of inputs and parameters: differentiate it after the block.

    A path begins at every tensor that requires a gradient and is no ``nn.Parameter``, at embeddings that are looked up, and where data
    without gradient meets weights in a linear map, a convolution, a normalisation or attention. Parameters get the gradient of the
    surrogate that the rule differentiates: the gates, scales and attention weights that it holds constant are constants there too.

    The rule covers every torch call of the block. A loss that squares, multiplies or divides what depends on the input is covered as well:
    to use the ordinary gradient for it, compute it after the block and run the backward pass in another block. A softmax that weighs no
    values (over classes) is differentiated as usual. Yields a block whose ``unruled`` names the functions that signals passed by ordinary
    gradient because the rule says nothing about them; losses are among them.

    Raises ExplainerError for a rule that does not exist, for one that carries relevance, which is no gradient; in a backward pass for
    gradients of parameters under a rule whose linear maps are not differentiated (γ, ε), and for a gradient under a rule that is
    differentiated while a rule other than the ordinary gradient is in force; in a forward pass for gradient checkpointing.
    """
    if isinstance(rule, str):
        if rule not in RULES:
            raise ExplainerError(f"There is no rule {rule!r}: send one of {', '.join(gradient_rules())}, or a Rule.")
        rule = RULES[rule]
    if rule.is_relevance:
        raise ExplainerError(
            f"The rule {rule.name} carries relevance, which is no gradient: ask for its maps with explainers.explain and a method that "
            f"reads it, such as lrp:{rule.name}, or send one of {', '.join(gradient_rules())}."
        )
    with without_compilation(), own_code().block(rule) as block:
        yield block
