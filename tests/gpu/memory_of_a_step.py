"""The memory of a GPU over a training step, as `h200_memory.json` has it.

`python tests/gpu/memory_of_a_step.py FILE` trains a decoder for three steps in each of
ten ways, and writes what PyTorch's allocator had given out in the last step. It needs
torch alone, a GPU with 50 GB and a minute.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

SHAPE = {
    "layers": 16, "hidden": 2048, "heads": 16, "kv_heads": 16, "ffn": 8192,
    "vocabulary": 32000, "gated": False, "examples": 8, "tokens": 2048,
}  # fmt: skip
CHANGES = (
    {},
    {"gated": True},
    {"gated": True, "kv_heads": 4},
    {"layers": 8},
    {"examples": 4},
)
NARROW = {"dtype": torch.bfloat16, "device": "cuda"}


def linear(into: int, out: int) -> nn.Linear:
    return nn.Linear(into, out, bias=False, **NARROW)


class Block(nn.Module):
    """Attention and an MLP, each after a norm and beside the way around it."""

    def __init__(self, shape: dict[str, Any]) -> None:
        super().__init__()
        hidden, ffn = shape["hidden"], shape["ffn"]
        self.width = hidden // shape["heads"]
        of_keys = shape["kv_heads"] * self.width
        self.norms = nn.ModuleList(nn.RMSNorm(hidden, **NARROW) for _ in range(2))
        self.query, self.out = linear(hidden, hidden), linear(hidden, hidden)
        self.key, self.value = linear(hidden, of_keys), linear(hidden, of_keys)
        self.up, self.down = linear(hidden, ffn), linear(ffn, hidden)
        self.gate = linear(hidden, ffn) if shape["gated"] else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](x)
        parts = (
            project(y).unflatten(-1, (-1, self.width)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            heads = functional.scaled_dot_product_attention(
                *parts, is_causal=True, enable_gqa=True
            )
        x = x + self.out(heads.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        if self.gate is None:
            return x + self.down(functional.gelu(self.up(y)))
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Blocks between an embedding and logits. again: blocks are computed again."""

    def __init__(self, shape: dict[str, Any], again: bool) -> None:
        super().__init__()
        self.again = again
        tokens, hidden = shape["vocabulary"], shape["hidden"]
        self.embedding = nn.Embedding(tokens, hidden, **NARROW)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape["layers"]))
        self.norm, self.head = nn.RMSNorm(hidden, **NARROW), linear(hidden, tokens)

    def forward(self, tokens: torch.Tensor, mark: Callable[[str], None]) -> Any:
        x = self.embedding(tokens)
        mark("embedding")
        for number, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
            name = f"before backward of block {number}"
            x.register_hook(lambda _, name=name: mark(name))
            mark(f"block {number}")
        return self.head(self.norm(x))


def train(shape: dict[str, Any], again: bool) -> dict[str, Any]:
    """Train three steps; return the shape and the marks of the last one."""
    torch.cuda.empty_cache()
    torch.manual_seed(0)
    model = Decoder(shape, again)
    narrow = list(model.parameters())
    wide = [parameter.detach().float() for parameter in narrow]
    optimizer = torch.optim.AdamW(wide, lr=1e-4, fused=True)
    marks: list[tuple[str, float, int, int]] = []
    begin = 0.0

    def mark(name: str) -> None:
        torch.cuda.synchronize()
        now = round(time.perf_counter() - begin, 5)
        given_out, most = (
            torch.cuda.memory_allocated(),
            torch.cuda.max_memory_allocated(),
        )
        marks.append((name, now, given_out, most))
        torch.cuda.reset_peak_memory_stats()

    for _ in range(3):
        marks.clear()
        begin = time.perf_counter()
        mark("begin")
        size = shape["examples"], shape["tokens"] + 1
        tokens = torch.randint(0, shape["vocabulary"], size, device="cuda")
        logits = model(tokens[:, :-1], mark)
        mark("logits")
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        mark("loss")
        del logits
        loss.backward()
        mark("backward")
        for copy, parameter in zip(wide, narrow, strict=True):
            copy.grad, parameter.grad = parameter.grad.float(), None
        mark("gradients in float32")
        optimizer.step()
        mark("optimizer")
        for copy, parameter in zip(wide, narrow, strict=True):
            parameter.data.copy_(copy)
            copy.grad = None
        mark("update")
    parameters = sum(parameter.numel() for parameter in narrow)
    return {**shape, "again": again, "parameters": parameters, "marks": marks}


def main() -> None:
    runs = [
        train(SHAPE | change, again) for change in CHANGES for again in (False, True)
    ]
    gpu = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    Path(sys.argv[1]).write_text(json.dumps({**gpu, "runs": runs}))


if __name__ == "__main__":
    main()
