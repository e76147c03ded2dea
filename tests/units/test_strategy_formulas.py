"""The bytes of an inner stage by the formulas of section 13.6, and by the compiler."""

import pytest

from collectives_lab import strategies as st
from collectives_lab.strategies import models

FLAT = st.Strategy(
    model=models.llama3_70b, batch=1024, sequence=8192, data=8, pipeline=4,
    micro_batches=8,
)  # fmt: skip
TENSOR = FLAT.but(data=1, tensor=8, batch=128)
BY_TOKENS = TENSOR.but(sequence_parallel=True)
EXPERTS = st.Strategy(
    model=models.qwen3_235b, batch=4096, sequence=4096, data=8, pipeline=8, expert=8,
    micro_batches=16,
)  # fmt: skip
KEYS = 2 * FLAT.model.key_width * FLAT.sequence * 2
"""Bytes of the keys and values of an example."""
PART = (8 - 1) / 8
M, L = FLAT.micro_batches, FLAT.blocks(1)
W = G = 2 * sum(shard.numel for layer in FLAT.shards(1) for shard in layer)
X = FLAT.x_bytes
X_OF_EXPERTS = EXPERTS.model.top_k * EXPERTS.x_bytes
OF_EXPERTS = 16 * EXPERTS.blocks(1) * X_OF_EXPERTS


@pytest.mark.parametrize(
    "way, along, sent",
    [
        (FLAT, "data", 2 * PART * G),
        (FLAT.but(zero=1), "data", PART * (G + W)),
        (FLAT.but(zero=2), "data", PART * (M * G + W)),
        (FLAT.but(zero=3), "data", PART * M * (G + 2 * W)),
        (TENSOR, "tensor", PART * 8 * M * L * TENSOR.x_bytes),
        (BY_TOKENS, "tensor", PART * 8 * M * L * TENSOR.x_bytes),
        (BY_TOKENS.but(regather=True), "tensor", PART * 10 * M * L * TENSOR.x_bytes),
        (FLAT.but(interleave=5), "pipeline", 2 * M * 5 * X),
        (BY_TOKENS, "pipeline", 2 * M * TENSOR.x_bytes / 8),
        (FLAT.but(context=8, batch=8), "context", PART * 3 * M * L * KEYS),
        (EXPERTS, "expert", PART * 4 * OF_EXPERTS),
        (EXPERTS.but(recompute="full"), "expert", PART * 6 * OF_EXPERTS),
    ],
)
def test_a_formula_gives_the_bytes_that_are_compiled(
    way: st.Strategy, along: str, sent: float
) -> None:
    """Up to the norms' gradients and the counts of tokens, which are small."""
    assert st.sentences(way, 1).bytes_sent(along) == pytest.approx(sent, rel=1e-5)
