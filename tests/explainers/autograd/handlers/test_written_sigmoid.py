"""A sigmoid that is written out has the rules of the sigmoid, and what torch cannot differentiate is named."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers import ExplainerError, Preprocessing, backward_rule

X = torch.tensor([[-2.3, -0.4, 0.7, 1.9, 30.0, -30.0]]).double()
#: Each is x times the sigmoid of x.
SILUS: dict[str, Callable[[Tensor], Tensor]] = {
    "over": lambda x: x / (1 + torch.exp(-x)),
    "one over": lambda x: x * (1 / (1 + (-x).exp())),
    "reciprocal": lambda x: x * (1 + torch.exp(-x)).reciprocal(),
    "power": lambda x: x * (torch.exp(-x) + 1) ** -1,
    "exponential over": lambda x: x * (torch.exp(x) / (1 + torch.exp(x))),
    "by expm1": lambda x: x / (torch.expm1(-x) + 2),
    "with another constant": lambda x: 3 * x / (3 + torch.exp(math.log(3) - x)),
    "in place": lambda x: torch.div(x, torch.exp(-x).add_(1)),
}


def signal(function: Callable[[Tensor], Tensor], rule: str) -> Tensor:
    x = X.clone().requires_grad_()
    with backward_rule(rule):
        (found,) = torch.autograd.grad(function(x).sum(), x)
    return found


@pytest.mark.parametrize("form", SILUS)
def test_silu_written_out(form: str) -> None:
    sigmoid = 1 / (1 + torch.exp(-X))
    derivative = sigmoid * (1 + X * (1 - sigmoid))
    for rule, expected in {"gradient": derivative, "conservative": derivative, "libra": sigmoid, "attnlrp": sigmoid}.items():
        torch.testing.assert_close(signal(SILUS[form], rule), expected, msg=f"{form} {rule}")


#: Curves that are x over a curve of x, and their derivatives.
QUOTIENTS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "softsign": (lambda x: x / (1 + x.abs()), lambda x: 1 / (1 + x.abs()) ** 2),
    "softsign of torch's": (lambda x: torch.nn.functional.softsign(x), lambda x: 1 / (1 + x.abs()) ** 2),
    "softsign in another order": (lambda x: x / torch.abs(x).add(1), lambda x: 1 / (1 + x.abs()) ** 2),
    "three times": (lambda x: 3 * x / (1 + x.abs()), lambda x: 3 / (1 + x.abs()) ** 2),
    "over a root": (lambda x: x / (1 + x.square()).sqrt(), lambda x: (1 + x.square()) ** -1.5),
    "over a power": (lambda x: x / (1 + x**2) ** 0.5, lambda x: (1 + x.square()) ** -1.5),
}


@pytest.mark.parametrize("form", QUOTIENTS)
def test_x_over_a_curve_of_x_is_an_activation(form: str) -> None:
    """Differentiated by rules that differentiate activations; for others it is x times a constant."""
    function, derivative = QUOTIENTS[form]
    for rule, expected in {"conservative": derivative(X), "libra": function(X) / X, "attnlrp": function(X) / X}.items():
        torch.testing.assert_close(signal(function, rule), expected, msg=f"{form} {rule}")


def test_x_over_a_curve_of_many_numbers_is_a_normalisation() -> None:
    for function in (lambda x: x / (1 + x.abs().sum(-1, keepdim=True)), lambda x: x / (1 + x.square().mean(-1, keepdim=True)).sqrt()):
        torch.testing.assert_close(signal(function, "conservative"), function(X) / X)


def test_a_sigmoid_alone_and_a_gated_path() -> None:
    sigmoid = 1 / (1 + torch.exp(-X))
    torch.testing.assert_close(signal(lambda x: 1 / (1 + torch.exp(-x)), "conservative"), sigmoid * (1 - sigmoid))
    # 2 x is gated by the sigmoid of 3 x: both are differentiated under the conservative rule, and the gate is constant under Libra
    gate = 1 / (1 + torch.exp(-3 * X))
    gated = {"conservative": 2 * gate + 6 * X * gate * (1 - gate), "libra": 2 * gate}
    for rule, expected in gated.items():
        torch.testing.assert_close(signal(lambda x: 2 * x / (1 + torch.exp(-3 * x)), rule), expected)


def test_a_sum_of_exponentials_over_tokens_is_no_sigmoid() -> None:
    def softmax_of_one_more(x: Tensor) -> Tensor:
        return (torch.exp(x) / (1 + torch.exp(x).sum(-1, keepdim=True)))[..., 2]

    weights = torch.cat([X, torch.zeros(1, 1).double()], 1).softmax(-1)[:, :-1]
    expected = -weights[0, 2] * weights
    expected[0, 2] += weights[0, 2]
    torch.testing.assert_close(signal(softmax_of_one_more, "gradient"), expected)


class Steps(nn.Module):
    """A classifier of pictures whose MLPs have the activation that is given."""

    def __init__(self, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        layers = [nn.TransformerEncoderLayer(8, 2, 16, activation=act, batch_first=True, norm_first=True, dropout=0.0) for _ in range(2)]
        self.patch, self.cls, self.blocks = nn.Conv2d(3, 8, 8, 8), nn.Parameter(torch.randn(1, 1, 8)), nn.ModuleList(layers)
        self.head = nn.Linear(8, 3)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = torch.cat([self.cls.expand(len(pixel_values), -1, -1), self.patch(pixel_values).flatten(2).mT], 1)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x[:, 0])
        return logits


def test_a_step_is_a_constant_and_what_has_no_derivative_is_named() -> None:
    pictures = torch.randn(1, 3, 16, 24, generator=torch.Generator().manual_seed(0)).double()

    def scores(act: Callable[[Tensor], Tensor], spec: str) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = Steps(act).double().eval()
        model = explainers.wrap(module, kind="image", preprocess=Preprocessing((16, 24)))
        result = explainers.explain(model, {"pixel_values": pictures}, target=1, methods=[spec])
        assert isinstance(result, explainers.Explanation)
        return result[spec].scores

    def step(x: Tensor) -> Tensor:
        return x * torch.heaviside(x, x.new_zeros(()))

    for spec in ("input_x_gradient:gradient", "fullgrad:libra"):
        torch.testing.assert_close(scores(step, spec), scores(torch.relu, spec))
    with pytest.raises(ExplainerError, match="The model uses heaviside"):  # which writes into what depends on the input
        scores(lambda x: x * x.clone().heaviside_(x.new_zeros(())), "input_x_gradient:gradient")
    with pytest.raises(ExplainerError, match=r"The model uses igamma, whose derivative torch does not have.*raw_attention"):
        scores(lambda x: torch.special.gammainc(x.abs() + 1, x.abs() + 1), "input_x_gradient:gradient")
