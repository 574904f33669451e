"""What ``wrap`` finds in each family of the table: blocks, layout, details; and that it leaves the module as it was."""

from __future__ import annotations

import pytest
import torch

from explainers.models.model import Model
from explainers.models.wrapping import wrap
from tests.families import FAMILIES, Family


@pytest.fixture(scope="module", params=FAMILIES.values(), ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


@pytest.fixture(scope="module")
def model(family: Family) -> Model:
    """The family's model, wrapped: shared by tests, so never change it."""
    return wrap(family.build())


def test_finds_blocks_entry_and_layout(family: Family, model: Model) -> None:
    names = {id(part): name for name, part in model.module.named_modules()}
    layout = model.layout_of(family.inputs())
    assert model.kind == family.kind
    assert tuple(names[id(block)] for block in model.blocks) == family.blocks
    assert names[id(model.entry)] == family.entry
    assert (layout.prefix, layout.class_token, layout.grid) == (family.prefix, family.class_token, family.grid)
    assert layout.coarser == family.coarser


def taken(family: Family, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """SigLIP 2 is sent rows of patches, a patch's colours innermost, their mask, and how many rows and columns there are."""
    if "siglip2" not in family.name:
        return tensors
    columns = torch.nn.functional.unfold(tensors["pixel_values"], 8, stride=8).mT
    patches = columns.unflatten(-1, (3, 64)).transpose(-1, -2).flatten(-2)
    mask, shapes = torch.ones(patches.shape[:2], dtype=torch.int64), torch.tensor([list(family.grid or ())] * len(patches))
    return {**tensors, "pixel_values": patches, "pixel_attention_mask": mask, "spatial_shapes": shapes}


def test_forward_gives_the_modules_own_logits_for_every_sample(family: Family, model: Model) -> None:
    module, tensors = model.module, family.inputs(batch=3)
    with torch.no_grad():
        logits = model.forward(model.tensors(tensors))
        output = module(tensors["pixel_values"]) if family.library == "timm" else module(**taken(family, tensors))
    expected = output if isinstance(output, torch.Tensor) else getattr(output, "logits_per_image", getattr(output, "logits", None))
    torch.testing.assert_close(logits, expected, rtol=0, atol=0)
    assert len(logits) == 3
    assert family.kind == "clip" or len(model.labels) == logits.shape[1]


def test_tokens_reach_the_blocks_as_the_layout_says(family: Family, model: Model) -> None:
    tensors = family.inputs(batch=2)
    seen: list[torch.Tensor] = []
    handle = model.entry.register_forward_pre_hook(lambda module, args: seen.append(model.block_kind.input_tokens(args, {})))
    with torch.no_grad():
        model.forward(tensors)
    handle.remove()
    layout = model.layout_of(tensors)
    patches = layout.grid[0] * layout.grid[1] if layout.grid else tensors["input_ids"].shape[1] - layout.prefix
    assert seen[0].shape == (2, layout.prefix + patches + sum(rows * columns for rows, columns in family.coarser), family.row)


def test_patches_lie_row_by_row_after_the_prefix(family: Family, model: Model) -> None:
    if family.kind == "text" or family.mixed:
        pytest.skip("no grid, or patches met before")
    tensors = family.inputs(batch=1)
    changed = {name: tensor.clone() for name, tensor in tensors.items()}
    changed["pixel_values"][..., 8:16, 16:24] += 1  # second row, third column of patches
    seen: list[torch.Tensor] = []
    handle = model.entry.register_forward_pre_hook(lambda module, args: seen.append(model.block_kind.input_tokens(args, {})))
    with torch.no_grad():
        model.forward(tensors)
        model.forward(changed)
    handle.remove()
    layout = model.layout_of(tensors)
    assert layout.grid is not None
    different = (seen[0] != seen[1]).any(-1)[0].nonzero().flatten().tolist()
    assert different == [layout.prefix + 1 * layout.grid[1] + 2]


@pytest.mark.slow
def test_leaves_the_module_as_it_was(family: Family) -> None:
    module = family.build()
    module.train()
    frozen = next(iter(module.modules()))
    children = list(module.children())
    children[0].eval()
    modes = [part.training for part in module.modules()]
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    state = torch.get_rng_state()
    wrap(module)
    assert [part.training for part in module.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert all(parameter.grad is None for parameter in frozen.parameters())
    for part in module.modules():
        assert not part._forward_hooks
        assert not part._forward_pre_hooks


@pytest.mark.slow
def test_details_say_what_the_model_is(family: Family, model: Model) -> None:
    details = wrap(model.module, name="mine").details
    assert details["blocks"] == len(family.blocks)
    assert details["heads"] == family.heads
    assert details["width"] == 24
    assert details["grid"] == family.grid
    assert details["input"] == (family.size if family.kind != "text" else None)
    assert details["max_tokens"] == (None if family.kind == "image" else 18 if family.name == "roberta" else 20)
    assert details["classes"] == (len(model.labels) or None)
    assert details["parameters"] == sum(p.numel() for p in model.module.parameters())
    assert details["source"] == "mine"
