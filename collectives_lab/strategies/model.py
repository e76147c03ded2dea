"""A transformer on paper: its parameters one tensor at a time, and its FLOPs.

Here you can describe a `Model` by its shape and ask for its parameters (`parameters`,
`active`), the tensors of its layers (`embedding`, `block`, `head`) and what a token
costs (`flops`). It is a decoder: an embedding, equal blocks of attention and an MLP or
experts, a norm and the logits. The layers of a pipeline, and what ZeRO gathers at a
time, are these: the embedding, each block, the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Tensor(NamedTuple):
    """Parameters that are one tensor, or some `alike`, of `numel` numbers each.

    cut: by which degree ranks share it: "tensor" (a part of each tensor), "expert"
    (some of the experts, and a part of each), or "" where every rank has it whole.
    matrix: whether tokens are multiplied by it. read: of those alike, how many a token
    meets.
    """

    name: str
    numel: int
    cut: str = ""
    matrix: bool = False
    alike: int = 1
    read: int = 1


@dataclass(frozen=True)
class Model:
    """The shape of a decoder.

    layers: blocks. hidden: numbers of a token between the blocks. heads, kv_heads:
    heads of the queries, and of keys and values (None: as many). ffn: hidden units of
    an MLP or of an expert. vocabulary: tokens it knows. head_width: numbers of a head;
    None for hidden / heads. gated: three matrices an MLP (SwiGLU), not two. experts,
    top_k: experts a block, 0 for an MLP, and how many of them a token meets. positions:
    rows of a learned embedding of places, 0 for none. biases: linear layers and norms
    have them. tied: the logits use the embedding's table. source: where the shape is
    from. Raises ValueError for a shape that cannot be.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocabulary: int
    kv_heads: int | None = None
    head_width: int | None = None
    gated: bool = True
    experts: int = 0
    top_k: int = 0
    positions: int = 0
    biases: bool = False
    tied: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "ffn", "vocabulary"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; need 1 or more")
        if self.head_width is None and self.hidden % self.heads:
            raise ValueError(
                f"{self.heads} heads do not divide hidden {self.hidden}; say head_width"
            )
        if self.heads % self.key_heads:
            raise ValueError(
                f"{self.key_heads} kv_heads do not divide {self.heads} heads"
            )
        if self.experts < 0 or not (
            1 <= self.top_k <= self.experts or self.experts == self.top_k == 0
        ):
            raise ValueError(
                f"top_k is {self.top_k} of {self.experts} experts; need "
                "1 <= top_k <= experts, or 0 of both for an MLP"
            )

    @property
    def key_heads(self) -> int:
        """Heads of the keys, and of the values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def query_width(self) -> int:
        """Numbers of all heads' queries of a token."""
        return self.heads * (self.head_width or self.hidden // self.heads)

    @property
    def key_width(self) -> int:
        """Numbers of all heads' keys of a token."""
        return self.query_width // self.heads * self.key_heads

    # -- parameters ----------------------------------------------------------------

    @property
    def embedding(self) -> tuple[Tensor, ...]:
        """The tables of tokens and of places."""
        tables = {"tokens": self.vocabulary, "positions": self.positions}
        return tuple(
            Tensor(name, rows * self.hidden, "tensor")
            for name, rows in tables.items()
            if rows
        )

    @property
    def block(self) -> tuple[Tensor, ...]:
        """A norm, the attention, a norm, and the MLP or the experts."""
        h, q, k = self.hidden, self.query_width, self.key_width
        return (
            *self._norm("norm1"),
            *self._columns("query", h, q),
            *self._columns("key", h, k),
            *self._columns("value", h, k),
            *self._rows("out", q, h),
            *self._norm("norm2"),
            *(self._experts() if self.experts else self._mlp()),
        )

    @property
    def matrices(self) -> tuple[Tensor, ...]:
        """The matrices of a block, in the order in which a token meets them."""
        return tuple(t for t in self.block if t.matrix)

    @property
    def head(self) -> tuple[Tensor, ...]:
        """The last norm and the logits."""
        return (*self._norm("norm"), *self._logits())

    def _logits(self) -> tuple[Tensor, ...]:
        table = Tensor("logits", self.hidden * self.vocabulary, "tensor", True)
        return () if self.tied else (table,)

    def _norm(self, name: str) -> Iterable[Tensor]:
        weight, bias = Tensor(name, self.hidden), Tensor(f"{name} bias", self.hidden)
        return (weight, bias) if self.biases else (weight,)

    def _columns(self, name: str, inputs: int, outputs: int) -> Iterable[Tensor]:
        weight = Tensor(name, inputs * outputs, "tensor", True)
        bias = Tensor(f"{name} bias", outputs, "tensor")
        return (weight, bias) if self.biases else (weight,)

    def _rows(self, name: str, inputs: int, outputs: int) -> Iterable[Tensor]:
        weight = Tensor(name, inputs * outputs, "tensor", True)
        bias = Tensor(f"{name} bias", outputs)
        return (weight, bias) if self.biases else (weight,)

    def _mlp(self) -> Iterable[Tensor]:
        ups = ("gate", "up") if self.gated else ("up",)
        for name in ups:
            yield from self._columns(name, self.hidden, self.ffn)
        yield from self._rows("down", self.ffn, self.hidden)

    def _experts(self) -> Iterable[Tensor]:
        """Yield a router and the experts' matrices; they have no biases."""
        yield Tensor("router", self.hidden * self.experts, "", True)
        for part in self._mlp():
            if part.matrix:
                name, all_of_them = f"experts' {part.name}", (self.experts, self.top_k)
                yield Tensor(name, part.numel, "expert", True, *all_of_them)

    @property
    def parameters(self) -> int:
        """All of them."""
        return self._sum(lambda tensor: tensor.alike)

    @property
    def active(self) -> int:
        """Those that one token meets: of the experts only its own."""
        return self._sum(lambda tensor: tensor.read)

    def _sum(self, times: Callable[[Tensor], int]) -> int:
        once, each = (*self.embedding, *self.head), self.block
        return sum(times(t) * t.numel for t in once) + self.layers * sum(
            times(t) * t.numel for t in each
        )

    # -- operations ----------------------------------------------------------------

    @property
    def block_flops(self) -> int:
        """Operations of a block's matrices for a token, forward: 2 for each number."""
        return 2 * sum(t.read * t.numel for t in self.matrices)

    @property
    def head_flops(self) -> int:
        """Operations of the logits for a token, forward."""
        return 2 * self.hidden * self.vocabulary

    def attention_flops(self, sequence: int, causal: bool = False) -> int:
        """Return the operations of a block's scores and mixing for a token, forward.

        4 s a d, of a heads of width d with s tokens; causal: half of it.
        """
        return 4 * sequence * self.query_width // (2 if causal else 1)

    def flops(self, sequence: int, causal: bool = False) -> int:
        """Return the operations a token in a training step, forward and backward.

        Backward takes twice as many as forward: in all 6 for each number of a matrix
        that the token meets, and 12 L s a d for the attention, as if no token were
        masked, unless `causal`. What is computed again does not count. Source:
        Chowdhery et al., PaLM, 2022, appendix B; Narayanan et al., SC 2021, section
        5.1, where blocks count 4 thirds: they are computed again.
        """
        block = self.block_flops + self.attention_flops(sequence, causal)
        return 3 * (self.layers * block + self.head_flops)

    def __repr__(self) -> str:
        active = f", {self.active:,} active" if self.experts else ""
        return f"Model({self.name}: {self.parameters:,} parameters{active})"
