"""Models that the field talks about, and the small one that `parallel` trains.

Here: `tiny`, as `parallel.problem.new_model` makes it; `gpt`, a GPT of any size as
Megatron-LM counts it; `mpt`, one of llm-foundry's; and `gpt3_175b`, `llama2_7b`,
`llama2_70b`, `llama3_8b`, `llama3_70b`, `llama3_405b`, `palm_540b`, `mixtral_8x7b`,
`qwen3_235b`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from collectives_lab.strategies.model import Model


def tiny(
    width: int = 32, heads: int = 4, blocks: int = 2, experts: int = 0, top_k: int = 0
) -> Model:
    """Return the transformer of `parallel.problem`.

    With experts, that of `parallel.experts`.

    Its examples have 32 letters of 128.
    """
    return _like_gpt(
        "tiny",
        (blocks, width, heads),
        vocabulary=128,
        positions=32,
        experts=experts,
        top_k=top_k,
        source="the model of chapter 6 (parallel/problem.py)",
    )


def gpt(layers: int, hidden: int, heads: int, name: str = "") -> Model:
    """Return a GPT: 51 200 tokens, 2048 learned places, an MLP of 4 hidden, biases,
    tied.

    Source: Narayanan et al., Efficient large-scale language model training, SC 2021,
    section 5.1.
    """
    return _like_gpt(
        name or f"GPT {layers} x {hidden}",
        (layers, hidden, heads),
        vocabulary=51_200,
        positions=2048,
        biases=True,
        tied=True,
        source="Narayanan et al., SC 2021, section 5.1",
    )


def mpt(layers: int, hidden: int, heads: int, name: str = "") -> Model:
    """Return an MPT: as `gpt`, with 50 368 tokens.

    Source: llm-foundry, scripts/train/yamls/pretrain.
    """
    source = "llm-foundry, scripts/train/yamls/pretrain"
    shape = gpt(layers, hidden, heads, name or f"MPT {layers} x {hidden}")
    return replace(shape, vocabulary=50_368, source=source)


def _like_gpt(name: str, shape: tuple[int, int, int], **others: Any) -> Model:
    """Return a model with an MLP of two matrices and 4 times hidden units.

    shape: layers, hidden numbers and heads.
    """
    layers, hidden, heads = shape
    return Model(name, layers, hidden, heads, ffn=4 * hidden, gated=False, **others)


gpt3_175b = replace(
    gpt(96, 12_288, 96, "GPT-3 175B"),
    vocabulary=50_257,
    source="Brown et al. 2020, Language models are few-shot learners, table 2.1",
)
llama2_7b = Model(
    "Llama 2 7B",
    layers=32,
    hidden=4096,
    heads=32,
    ffn=11_008,
    vocabulary=32_000,
    source="Touvron et al. 2023, Llama 2, section 2.2, and the released weights",
)
llama2_70b = Model(
    "Llama 2 70B",
    layers=80,
    hidden=8192,
    heads=64,
    ffn=28_672,
    vocabulary=32_000,
    kv_heads=8,
    source="Touvron et al. 2023, Llama 2, section 2.2, and the released weights",
)
llama3_8b = Model(
    "Llama 3 8B",
    layers=32,
    hidden=4096,
    heads=32,
    ffn=14_336,
    vocabulary=128_256,
    kv_heads=8,
    source="Grattafiori et al. 2024, The Llama 3 herd of models, table 3",
)
llama3_70b = replace(
    llama2_70b,
    name="Llama 3 70B",
    vocabulary=128_256,
    source="Grattafiori et al. 2024, The Llama 3 herd of models, table 3",
)
llama3_405b = Model(
    "Llama 3 405B",
    layers=126,
    hidden=16_384,
    heads=128,
    ffn=53_248,
    vocabulary=128_256,
    kv_heads=8,
    source="Grattafiori et al. 2024, The Llama 3 herd of models, table 3",
)
palm_540b = Model(
    "PaLM 540B",
    layers=118,
    hidden=18_432,
    heads=48,
    ffn=73_728,
    vocabulary=256_000,
    kv_heads=1,
    head_width=256,
    tied=True,
    source="Chowdhery et al. 2022, PaLM, table 1 and section 2",
)
mixtral_8x7b = Model(
    "Mixtral 8x7B",
    layers=32,
    hidden=4096,
    heads=32,
    ffn=14_336,
    vocabulary=32_000,
    kv_heads=8,
    experts=8,
    top_k=2,
    source="Jiang et al. 2024, Mixtral of experts, table 1",
)
qwen3_235b = Model(
    "Qwen3 235B",
    layers=94,
    hidden=4096,
    heads=64,
    ffn=1536,
    vocabulary=151_936,
    kv_heads=4,
    head_width=128,
    experts=128,
    top_k=8,
    source="Qwen team 2025, Qwen3 technical report, table 2, and the released weights",
)
