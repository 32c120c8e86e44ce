"""The convolutions over blocks are the plain ones; bfloat16 is near; the processor decides which is taken."""

from pathlib import Path

import numpy as np
import pytest
import torch
from model_cases import IMAGE, NATURE, env_spec
from torch import Tensor
from torch.nn import functional

from whorl.models.cnn import forward_cnn
from whorl.models.config import NetworkConfig
from whorl.models.encoding import image_scale, to_blocks
from whorl.models.flat import FlatParameters
from whorl.models.network import Network, block_size, convolutions
from whorl.models.precision import has_bfloat16, resolve_precision
from whorl.types import ObservationLeaf

LEAVES = {
    "nature": NATURE,
    "small": IMAGE,
    "odd sizes": ObservationLeaf("screen", "image", (3, 87, 101), "uint8", 0, 255),
    "another range": ObservationLeaf("screen", "image", (2, 36, 40), "float32", -3.0, 5.0),
    "unbounded": ObservationLeaf("screen", "image", (1, 20, 20), "float32"),
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def test_blocks_by_hand() -> None:
    image = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(1, 2, 4, 5)
    blocks = to_blocks(image, 2)
    assert blocks.shape == (1, 2, 2, 8)
    assert blocks[0, 0, 0].tolist() == [0, 1, 5, 6, 20, 21, 25, 26]
    assert blocks[0, 1, 1].tolist() == [12, 13, 17, 18, 32, 33, 37, 38]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_blocks_of_every_kind_and_of_views(size: int, dtype: str) -> None:
    images = np.random.default_rng(0).integers(0, 255, (6, 3, 9, 13)).astype(dtype)
    for image in (images, images[::2]):
        blocks = to_blocks(image, size)
        for n, y, x, c, dy, dx in np.ndindex(len(image), 9 // size, 13 // size, 3, size, size):
            assert blocks[n, y, x, (c * size + dy) * size + dx] == image[n, c, y * size + dy, x * size + dx]


def build(leaf: ObservationLeaf, bias: bool = True) -> tuple[dict[str, Tensor], np.ndarray]:
    network = Network(NetworkConfig(image_features=24, image_bias=bias), env_spec((leaf,)), normalise=False)
    parameters = FlatParameters(network, 5, torch.device("cpu"))
    rng = np.random.default_rng(0)
    for view in parameters.views.values():
        view += rng.standard_normal(view.shape).astype(np.float32) * np.float32(0.02)
    high = 255 if leaf.dtype == "uint8" else 5
    image = rng.uniform(0 if leaf.dtype == "uint8" else -3, high, (7, *leaf.shape)).astype(leaf.dtype)
    return {k: v.clone().requires_grad_() for k, v in parameters.tensors.items()}, image


def plain_cnn(leaf: ObservationLeaf, parameters: dict[str, Tensor], image: Tensor) -> Tensor:
    """As the paper says it, pixels in [0, 1]; the last layer takes them channel by channel within each pixel."""
    offset, factor = image_scale(leaf)
    x = (image.float() - offset) * factor
    for i, (_, stride) in enumerate(convolutions(leaf)):
        weight, bias = (parameters.get(f"image/{leaf.name}/{i}/{what}") for what in ("weight", "bias"))
        x = functional.conv2d(x, weight, bias, stride).relu()
    weight, bias = (parameters[f"image/{leaf.name}/out/{what}"] for what in ("weight", "bias"))
    return (x.permute(0, 2, 3, 1).reshape(len(x), -1) @ weight + bias).relu()


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", LEAVES)
def test_the_outputs_and_gradients_are_those_of_plain_convolutions(name: str, bias: bool) -> None:
    leaf = LEAVES[name]
    parameters, image = build(leaf, bias)
    own = {k: v for k, v in parameters.items() if k.startswith("image/")}
    results = []
    for how in ("blocks", "plain"):
        if how == "blocks":
            blocks = torch.from_numpy(to_blocks(image, block_size(leaf)))
            outputs = forward_cnn(leaf, parameters, blocks, torch.float32)
        else:
            outputs = plain_cnn(leaf, parameters, torch.from_numpy(image))
        d_outputs = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1))
        results.append((outputs, torch.autograd.grad(outputs, tuple(own.values()), d_outputs)))
    assert results[0][0].std() > 0.01
    torch.testing.assert_close(results[0][0], results[1][0], atol=1e-5, rtol=1e-4)
    for key, ours, plain in zip(own, results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-5 * float(plain.abs().max() + 1), rtol=1e-3, msg=key)


def test_bfloat16_is_near_and_its_outputs_and_gradients_are_float32() -> None:
    parameters, image = build(IMAGE)
    blocks = torch.from_numpy(to_blocks(image, block_size(IMAGE)))
    exact, near = (forward_cnn(IMAGE, parameters, blocks, dtype) for dtype in (torch.float32, torch.bfloat16))
    assert near.dtype == torch.float32
    assert not torch.equal(exact, near)
    torch.testing.assert_close(near, exact, atol=0.03 * exact.max().item(), rtol=0)
    gradient = torch.autograd.grad(near.sum(), parameters["image/camera/0/weight"])[0]
    assert gradient.dtype == torch.float32


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 amx_bf16\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_vnni\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd bf16 i8mm\n", True),
        ("", False),
    ],
)
def test_auto_takes_bfloat16_only_where_the_processor_has_it(text: str, there: bool, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(text)
    assert has_bfloat16("cpu", cpuinfo) == there
    assert resolve_precision("auto", "cpu", True, cpuinfo) == ("bfloat16" if there else "float32")
    assert resolve_precision("auto", "cpu", False, cpuinfo) == "float32"
    assert resolve_precision("bfloat16", "cpu", False, cpuinfo) == "bfloat16"
    assert not has_bfloat16("cpu", tmp_path / "nothing")
