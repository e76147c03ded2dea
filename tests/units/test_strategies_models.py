"""Models and strategies on paper: published parameters and FLOPs, and what fits."""

import json
from functools import cache

import pytest

from collectives_lab.data import shipped
from collectives_lab.parallel import problem
from collectives_lab.strategies import (
    FLOAT32,
    MIXED,
    Model,
    Strategy,
    memory,
    models,
    sentences,
)
from collectives_lab.strategies.memory import _block
from collectives_lab.strategies.models import gpt

MEGATRON = [
    (1.7, 24, 2304, 24),
    (3.6, 30, 3072, 32),
    (7.5, 36, 4096, 32),
    (18.4, 40, 6144, 48),
    (39.1, 48, 8192, 64),
    (76.1, 60, 10_240, 80),
    (145.6, 80, 12_288, 96),
    (310.1, 96, 16_384, 128),
    (529.6, 105, 20_480, 128),
    (1008.0, 128, 25_600, 160),
]
"""10^9 parameters, layers, hidden, heads. Narayanan et al., SC 2021, table 1."""

RELEASED = {
    models.llama2_7b: 6_738_415_616,
    models.llama2_70b: 68_976_648_192,
    models.llama3_8b: 8_030_261_248,
    models.llama3_70b: 70_553_706_496,
    models.llama3_405b: 405_853_388_800,
    models.mixtral_8x7b: 46_702_792_704,
}
"""Parameters in the files that were released."""


@pytest.mark.parametrize("width, blocks", [(32, 2), (64, 3)])
def test_the_tiny_model_is_the_one_that_runs(width: int, blocks: int) -> None:
    """Layer by layer and tensor by tensor, in the order that torch has."""
    model, real = models.tiny(width, 4, blocks), problem.new_model(width, 4, blocks)
    shape = [model.embedding, *[model.block] * blocks, model.head]
    assert [[t.numel for t in layer] for layer in shape] == [
        [p.numel() for p in layer.parameters()] for layer in real
    ]
    assert model.parameters == sum(p.numel() for p in real.parameters())


@pytest.mark.parametrize("model", RELEASED, ids=lambda model: model.name)
def test_parameters_are_those_released(model: Model) -> None:
    """To the last one."""
    assert model.parameters == RELEASED[model]


@pytest.mark.parametrize("billions, layers, hidden, heads", MEGATRON)
def test_parameters_are_megatrons(
    billions: float, layers: int, hidden: int, heads: int
) -> None:
    """As in its table, to the digit, and in its formula, but for the last norm."""
    model = gpt(layers, hidden, heads)
    assert round(model.parameters / 1e9, 1) == billions
    many = 12 * layers * hidden**2 + 13 * layers * hidden + (51_200 + 2048) * hidden
    assert model.parameters == many + 2 * hidden


def test_other_published_sizes() -> None:
    """GPT-3 and PaLM in all; experts in all and active."""
    assert round(models.gpt3_175b.parameters / 1e9, 1) == 174.6
    assert round(models.palm_540b.parameters / 1e9, 2) == 540.36
    assert round(models.mixtral_8x7b.active / 1e9) == 13
    assert round(models.qwen3_235b.parameters / 1e9) == 235
    assert round(models.qwen3_235b.active / 1e9) == 22


@pytest.mark.parametrize("billions, layers, hidden, heads", MEGATRON)
def test_flops_are_megatrons(
    billions: float, layers: int, hidden: int, heads: int
) -> None:
    """72 L h^2 (1 + s/6h + V/12Lh) a token; there 96 with blocks computed again."""
    s, v = 2048, 51_200
    model = gpt(layers, hidden, heads)
    needed = 72 * layers * hidden**2 * (1 + s / 6 / hidden + v / 12 / layers / hidden)
    assert model.flops(s) == pytest.approx(needed, rel=1e-12)
    block = model.block_flops + model.attention_flops(s)
    again = 96 * layers * hidden**2 * (1 + s / 6 / hidden + v / 16 / layers / hidden)
    assert model.flops(s) + layers * block == pytest.approx(again, rel=1e-12)


def test_flops_give_palms_utilisation() -> None:
    """238 300 tokens a second on 6144 TPU v4 of 275 TFLOP/s are 46.2 %.

    Chowdhery et al., PaLM, 2022, section 4.1 and table 3.
    """
    needed = models.palm_540b.flops(2048) * 238.3e3
    assert round(needed / (6144 * 275e12), 3) == 0.462


def test_flops_give_llamas_budget() -> None:
    """3.8e25 for 15.6e12 tokens, as 6 a parameter: without attention.

    Grattafiori et al., The Llama 3 herd of models, 2024, section 3.2.1.
    """
    model = models.llama3_405b
    assert 6 * model.parameters * 15.6e12 == pytest.approx(3.8e25, rel=1e-2)
    attention = model.flops(8192) - model.flops(0)
    assert attention == 12 * 126 * 8192 * 16_384
    assert model.flops(0) == 6 * (model.parameters - 128_256 * 16_384 - 253 * 16_384)


def test_causal_attention_is_half() -> None:
    """Only the scores and the mixing, not the matrices."""
    model = models.llama2_7b
    whole = model.flops(4096) - model.flops(0)
    assert model.flops(4096, causal=True) - model.flops(0) == whole / 2


@pytest.mark.parametrize("t", [1, 2, 8])
def test_a_block_keeps_what_the_paper_says(t: int) -> None:
    """s b h (10 + 24/t) bytes, 34/t with sequence parallelism, less two masks.

    Korthikanti et al. 2022, section 4, table 2, in float16 without attention's scores.
    """
    model = gpt(24, 2304, 24)
    there = Strategy(model=model, batch=1, sequence=2048, tensor=t)
    assert 2 * _block(there) == pytest.approx(model.hidden * (10 - 2 + 24 / t))
    split = there.but(sequence_parallel=True, regather=True)
    assert 2 * _block(split) == pytest.approx(model.hidden * (34 - 2) / t)
    scores = _block(there.but(recompute="none")) - _block(there)
    assert scores == pytest.approx(model.heads * 2048 / t)


@cache
def on_an_h200() -> list[tuple[Strategy, dict]]:
    """Each step of `h200_memory.json` with its strategy; the file says what ran."""
    sizes = "layers", "hidden", "heads", "ffn", "vocabulary", "kv_heads"
    found = []
    for run in json.loads(shipped("h200_memory.json").read_text())["runs"]:
        model = Model("", **{n: run[n] for n in sizes}, gated=run["gated"])
        recompute = "full" if run["again"] else "selective"
        parts = {"batch": run["examples"], "sequence": run["tokens"]}
        assert model.parameters == run["parameters"]
        found.append((Strategy(model=model, recompute=recompute, **parts), run))
    return found


def kept_by_a_block(run: dict) -> float:
    """Numbers of 2 bytes a token that the forward pass of a block adds."""
    at = {name: nbytes for name, _, nbytes, _ in run["marks"]}
    added = at[f"block {run['layers'] - 1}"] - at["embedding"]
    return added / run["layers"] / run["examples"] / run["tokens"] / 2


def test_a_block_keeps_what_an_h200_gave_it() -> None:
    """Within 0.2 %, but plain PyTorch keeps the product of a gated MLP, one more f.

    Without any of its terms the formula would be further off.
    """
    for strategy, run in on_an_h200():
        model, measured = strategy.model, kept_by_a_block(run)
        if run["again"]:
            assert measured == pytest.approx(model.hidden, rel=2e-3)
            continue
        formula = _block(strategy) + model.gated * model.ffn
        assert measured == pytest.approx(formula, rel=2e-3)
        for term in (model.hidden, model.query_width, model.key_width, model.ffn):
            assert measured != pytest.approx(formula - term, rel=1e-2)


def test_the_memory_of_a_step_is_an_h200s() -> None:
    """At most within 6.5 %, and within 1 % by what there is at that moment.

    Before the step there are parameters and optimizer state alone. The most is at the
    begin of the backward pass, without recomputing: there are no gradients of
    parameters yet, and of the softmax's size there are two gradients more. A gated
    MLP keeps its product, too.
    """
    for strategy, run in on_an_h200():
        kept, model = memory(strategy), strategy.model
        (_, _, before, _), *marks = run["marks"]
        assert before == pytest.approx(kept.parameters + kept.optimizer, rel=1e-2)
        assert before != pytest.approx(kept.optimizer, rel=1e-2)
        total, most = kept.total, max(most for *_, most in marks)
        if not run["again"]:
            total += model.gated * model.layers * model.ffn * strategy.tokens * 2
            there = total - kept.gradients + 2 * model.vocabulary * strategy.tokens * 2
            assert most == pytest.approx(there, rel=1e-2)
        assert most == pytest.approx(total, rel=0.065)
        assert most != pytest.approx(total - kept.optimizer, rel=0.065)


def test_zero_has_the_papers_memory() -> None:
    """7.5e9 parameters on 64 ranks: 120, 31.4, 16.6 and 1.9 GB.

    Rajbhandari et al., ZeRO, SC 2020, figure 1.
    """
    model = Model("ZeRO's example", 1, 17_660, 20, 4 * 17_660, 2, gated=False)
    shape = Strategy(model=model, batch=64, sequence=1, data=64, precision=MIXED)
    scale = 7.5e9 / model.parameters
    kept = [memory(shape.but(zero=stage)) for stage in range(4)]
    found = [scale * (k.parameters + k.gradients + k.optimizer) / 1e9 for k in kept]
    assert [round(k, 1) for k in found] == [120, 31.4, 16.6, 1.9]


def test_interleaving_keeps_a_little_more() -> None:
    """1 + (p-1)/(p v) times the activations on the first stage.

    Korthikanti et al. 2022, section 4.2.3.
    """
    plain = Strategy(
        model=gpt(96, 1024, 16), batch=64, sequence=2048, pipeline=8, micro_batches=64
    )
    for v in (2, 3, 4):
        more = memory(plain.but(interleave=v)).activations
        times = 1 + 7 / (8 * v)
        assert more == pytest.approx(times * memory(plain).activations)


def test_interleaving_sends_more() -> None:
    """v times, less the ends of the pipeline; a stage has as many layers."""
    plain = Strategy(
        model=models.llama2_7b, batch=8, sequence=64, pipeline=4, micro_batches=8
    )
    inner = sentences(plain, 1).bytes_sent("pipeline")
    more = plain.but(interleave=2)
    assert sentences(more, 1).bytes_sent("pipeline") == 2 * inner
    assert sentences(more, 0).bytes_sent("pipeline") == 1.5 * inner
    assert [more.blocks(k) for k in range(4)] == [8] * 4


def test_llamas_stages_count_the_embedding_and_the_head() -> None:
    """126 layers on 16 stages: 7 on the first and the last, 8 on the others."""
    strategy = Strategy(
        model=models.llama3_405b, batch=16, sequence=8192, pipeline=16, micro_batches=16
    )
    assert [strategy.blocks(k) for k in range(16)] == [7, *[8] * 14, 7]
    assert sum(memory(strategy, k).parameters for k in range(16)) == (
        2 * models.llama3_405b.parameters
    )


def test_a_tied_table_is_on_both_ends() -> None:
    """The first and the last stage add up its gradient; without stages nobody does."""
    model = gpt(4, 64, 4)
    strategy = Strategy(model=model, batch=2, sequence=8, pipeline=2)
    for stage in (0, 1):
        (said,) = (s for s in sentences(strategy, stage) if s.group == "ends")
        assert (said.verb, said.nbytes, said.times) == (
            "all_reduce",
            2 * 51_200 * 64,
            1,
        )
    assert strategy.members("ends", 1) == (0, 1)
    table = 2 * 51_200 * 64
    both = sum(memory(strategy, k).parameters for k in (0, 1))
    assert both == 2 * model.parameters + table
    assert not sentences(strategy.but(pipeline=1))


def test_groups_are_laid_out_innermost_first() -> None:
    """tensor, then experts along data, their replicas, and the pipeline."""
    strategy = Strategy(
        model=models.mixtral_8x7b,
        batch=8,
        sequence=8,
        tensor=2,
        data=4,
        expert=2,
        pipeline=2,
    )
    assert strategy.members("tensor", 5) == (4, 5)
    assert strategy.members("data", 3) == (1, 3, 5, 7)
    assert strategy.members("expert", 7) == (5, 7)
    assert strategy.members("replica", 7) == (3, 7)
    assert strategy.members("pipeline", 14) == (6, 14)
    turned = strategy.but(order=("data", "pipeline", "tensor"))
    assert turned.members("data", 5) == (4, 5, 6, 7)
    assert turned.members("tensor", 5) == (5, 13)
    assert turned.stage(5) == 1


WRONG = {
    "tensor=3 does not divide the 4 heads": {"tensor": 3},
    "expert=2, but tiny has no experts": {"data": 2, "expert": 2},
    "batch=8 is no multiple of data x micro_batches, 3 x 1": {"data": 3},
    "batch=8 is no multiple of data x micro_batches, 4 x 4": {
        "data": 4,
        "micro_batches": 4,
    },
    "3 pieces of a pipeline divide neither 2 layers nor 4": {"pipeline": 3},
    "interleave=2 needs a pipeline": {"interleave": 2},
    "micro_batches=1 go in rounds of pipeline=2": {"pipeline": 2, "interleave": 2},
    "zero is 4; need one of 0, 1, 2, 3": {"zero": 4},
    "recompute is 'all'; need one of 'none', 'selective'": {"recompute": "all"},
    "unit is 'block'; need 'parameter', 'layer', 'model'": {"unit": "block"},
    "data is 0; need a whole number, 1 or more": {"data": 0},
    "tensor is True; need a whole number": {"tensor": True},
    "order is .*once each": {"order": ("data", "tensor")},
    "regather gathers what sequence_parallel has split": {"regather": True},
    "does not divide the 30 tokens": {
        "sequence": 30,
        "tensor": 4,
        "sequence_parallel": True,
    },
}


@pytest.mark.parametrize("error", WRONG)
def test_what_does_not_fit_is_named(error: str) -> None:
    """The numbers and the rule are in the error."""
    shape = {"model": models.tiny(), "batch": 8, "sequence": 32, "precision": FLOAT32}
    with pytest.raises(ValueError, match=error):
        Strategy(**(shape | WRONG[error]))


def test_experts_that_do_not_fit_are_named() -> None:
    """They are shared evenly, by ranks that are neighbours along data."""
    model = models.tiny(experts=4, top_k=2)
    with pytest.raises(ValueError, match="expert=3 does not divide the 4 experts"):
        Strategy(model=model, batch=6, sequence=8, data=3, expert=3)
    with pytest.raises(ValueError, match="expert=2 does not divide data=3"):
        Strategy(model=model, batch=6, sequence=8, data=3, expert=2)


@pytest.mark.parametrize(
    "shape, error",
    [
        ({"top_k": 2}, "top_k is 2 of 0 experts"),
        ({"experts": 4}, "top_k is 0 of 4 experts"),
        ({"kv_heads": 3}, "3 kv_heads do not divide 4 heads"),
        ({"heads": 5}, "5 heads do not divide hidden 32"),
        ({"layers": 0}, "layers is 0; need 1 or more"),
    ],
)
def test_a_model_that_cannot_be_is_named(shape: dict, error: str) -> None:
    """The numbers and the rule are in the error."""
    right = {"layers": 2, "hidden": 32, "heads": 4, "ffn": 64, "vocabulary": 128}
    with pytest.raises(ValueError, match=error):
        Model("wrong", **(right | shape))


def test_a_stage_that_is_not_there_is_named() -> None:
    """With the number of stages."""
    strategy = Strategy(model=models.tiny(), batch=8, sequence=32, pipeline=2)
    with pytest.raises(ValueError, match="stage 2 of 2; need 0 <= stage < pipeline"):
        sentences(strategy, 2)
