from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from whorl.errors import BadInputError, MissingExtraError, WhorlError
from whorl.export import Target, export_module, verify_export


class Greedy(torch.nn.Module):
    """Two observation leaves to an action and its logits, like a policy."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))

    def forward(self, position: torch.Tensor, goal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.body(torch.cat([position, goal], dim=-1))
        return logits.argmax(-1), logits


class Noisy(Greedy):
    def forward(self, position: torch.Tensor, goal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        action, logits = super().forward(position, goal)
        return action, logits + torch.rand_like(logits)


def inputs(rows: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    return {
        "position": torch.randn(rows, 4, generator=generator),
        "goal": torch.randn(rows, 2, generator=generator),
    }


@pytest.mark.parametrize("to", ["onnx", "torchscript"])
def test_export_agrees_for_any_batch_size(tmp_path: Path, to: Target) -> None:
    module = Greedy()
    path = export_module(module, inputs(5), to, tmp_path / "deep" / "policy")
    assert path.stat().st_size > 100
    for rows in (1, 2, 17):
        assert verify_export(path, to, module, inputs(rows)) < 1e-5


@pytest.mark.parametrize("to", ["onnx", "torchscript"])
def test_an_export_that_differs_is_refused_and_removed(tmp_path: Path, to: Target) -> None:
    with pytest.raises(WhorlError, match=r"differs from the policy by up to 0\.\d+ .*try --to"):
        export_module(Noisy(), inputs(5), to, tmp_path / "policy")
    assert list(tmp_path.iterdir()) == []


def test_a_difference_is_measured(tmp_path: Path) -> None:
    module = Greedy()
    path = export_module(module, inputs(5), "torchscript", tmp_path / "policy.pt")
    with torch.no_grad():
        module.body[2].bias += 0.25
    assert verify_export(path, "torchscript", module, inputs(3)) == pytest.approx(0.25, abs=1e-5)
    with torch.no_grad():
        module.body[2].bias[0] = float("nan")
    assert math.isnan(verify_export(path, "torchscript", module, inputs(3)))


def test_bad_targets_and_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInputError, match="choose one of onnx, torchscript"):
        export_module(Greedy(), inputs(5), "pickle", tmp_path / "x")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="a directory; name a file in it"):
        export_module(Greedy(), inputs(5), "onnx", Path("/"))
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="cannot write the export"):
        export_module(Greedy(), inputs(5), "onnx", tmp_path / "file" / "x")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"needs onnxruntime.*pip install 'whorl\[export\]'"):
        export_module(Greedy(), inputs(5), "onnx", tmp_path / "x")
