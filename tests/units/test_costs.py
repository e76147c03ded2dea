"""The formulas of training, buckets, compression and failures, against their texts.

Output 4.1.1, Table 4.1.1 and the claims are those of "Why Communication, Not Compute,
Bounds Distributed Training". The closed forms of the algorithms are tested with them.
"""

import numpy as np
import pytest

from collectives_lab.costs import buckets, compression, failures, training

FLOP_RATE, BANDWIDTH = 312e12, 600e9
RATES = (FLOP_RATE, BANDWIDTH)
BATCH = 2048

OUTPUT_4_1_1 = """
     K  local batch  compute (ms)  all-reduce (ms)     gamma
     1         2048        275.69             0.00     0.000
     4          512         68.92            35.00     0.508
    16          128         17.23            43.75     2.539  <- comm-bound
    64           32          4.31            45.94    10.664  <- comm-bound
   256            8          1.08            46.48    43.164  <- comm-bound
  1024            2          0.27            46.62   173.164  <- comm-bound
"""

TABLE_4_1_1 = """
 P      compute  all-reduce  gamma
 1e+08     0.06        0.66  10.66
 7e+08     0.43        4.59  10.66
 7e+09     4.31       45.94  10.66
 7e+10    43.08      459.38  10.66
"""


def step(parameters: float, world_size: int, local_batch: int) -> tuple[float, float]:
    """Computation and communication of a step, in milliseconds."""
    compute = training.compute_seconds(parameters, local_batch, FLOP_RATE)
    moved = training.all_reduce_seconds(parameters, world_size, BANDWIDTH)
    return compute * 1e3, moved * 1e3


def line_of_the_output(world_size: int, parameters: float = 7e9) -> str:
    local_batch = BATCH // world_size
    compute, moved = step(parameters, world_size, local_batch)
    gamma = training.ratio(world_size, local_batch, *RATES)
    flag = "  <- comm-bound" if gamma > 1 else ""
    return (
        f"{world_size:>6d} {local_batch:>12d} {compute:>13.2f} {moved:>16.2f} "
        f"{gamma:>9.3f}{flag}"
    )


@pytest.mark.parametrize("line", OUTPUT_4_1_1.splitlines()[2:])
def test_output_4_1_1_digit_by_digit(line: str) -> None:
    """The strong-scaling sweep of the text comes out character by character."""
    assert line_of_the_output(int(line.split()[0])) == line


def test_a_wrong_formula_gives_another_output() -> None:
    """The comparison above sees a naive all-reduce, which moves (K-1)/K K times."""
    moved = training.all_reduce_seconds(7e9, 64, BANDWIDTH) * 64 / 2
    assert f"{moved * 1e3:.2f}" not in OUTPUT_4_1_1


@pytest.mark.parametrize("line", TABLE_4_1_1.splitlines()[2:])
def test_table_4_1_1_digit_by_digit(line: str) -> None:
    """Both times grow with the model, and gamma stays."""
    compute, moved = step(float(line.split()[0]), 64, 32)
    gamma = training.ratio(64, 32, *RATES)
    assert line.split()[1:] == [f"{v:.2f}" for v in (compute, moved, gamma)]


def test_the_ratio_is_that_of_the_two_times() -> None:
    """The parameters cancel, whatever their number."""
    for parameters in (1e3, 7e9):
        compute, moved = step(parameters, 16, 8)
        assert moved / compute == pytest.approx(training.ratio(16, 8, *RATES))


def test_break_even_lies_where_the_closed_form_says() -> None:
    """K = 1 + 6 G B / (2 g R) = 6.91, and there gamma is 1."""
    actual = training.break_even_world_size(BATCH, *RATES)
    assert actual == pytest.approx(1 + 6 * BATCH * BANDWIDTH / (2 * 2 * FLOP_RATE))
    assert f"{actual:.2f}" == "6.91"
    assert training.ratio(actual, BATCH / actual, *RATES) == pytest.approx(1)


def test_six_operations_a_token_turn_the_conclusion_round() -> None:
    """With 2048 tokens an example, 10.66 becomes 0.005: the step is compute-bound."""
    gamma = training.ratio(64, 32, *RATES, tokens_per_example=2048)
    assert f"{gamma:.3f}" == "0.005"
    assert training.break_even_world_size(BATCH, *RATES, tokens_per_example=2048) > 1e4


@pytest.mark.parametrize(
    "flop_rate, bandwidth, least, most",
    [
        (312e12, 600e9, 300, 400),  # the text's
        (0.4 * 312e12, 300e9, 200, 300),  # A100, NVLink 3 one way, sustained rate
        (0.4 * 312e12, 25e9, 3000, 4000),  # A100, a 200 Gb/s NIC a GPU
        (989e12, 50e9, 12000, 14000),  # H100 at its peak, a 400 Gb/s NIC a GPU
    ],
)
def test_break_even_in_tokens(flop_rate, bandwidth, least, most) -> None:
    """Some hundreds of tokens a GPU on NVLink, three to thirteen thousand on a NIC."""
    tokens = training.break_even_local_batch(64, flop_rate, bandwidth)
    assert least < tokens < most
    assert training.ratio(64, tokens, flop_rate, bandwidth) == pytest.approx(1)


def test_the_practical_example_contradicts_its_model() -> None:
    """16 GPUs have gamma 10.16, not near eleven; the batch alone restores 3.8 times."""
    assert f"{training.ratio(16, 32, *RATES):.2f}" == "10.16"
    before, after = (
        training.efficiency(training.ratio(k, 32, *RATES)) for k in (16, 64)
    )
    assert f"{4 * after / before:.1f}" == "3.8"


def test_a_step_hides_no_more_than_there_is_to_hide_it() -> None:
    """Overlap is bound by the communication, and by the computation beside it."""
    assert training.step_time(4, 2) == 6
    assert training.step_time(4, 2, overlap=0.5) == 5
    assert training.step_time(4, 2, overlap=1) == 4
    assert training.step_time(3, 5, overlap=1, hideable=2 / 3) == pytest.approx(6)


@pytest.mark.parametrize("name, value", [("overlap", 1.5), ("hideable", -0.1)])
def test_a_share_is_from_0_to_1(name: str, value: float) -> None:
    """Percent are no shares, and the error says which of them it was."""
    with pytest.raises(ValueError, match=rf"{name} is {value}; it is a share"):
        training.step_time(1, 1, **{name: value})


def test_latency_matters_for_small_models_only() -> None:
    """Exercise 4.1.2: 2 (K-1) alpha is 10.23 ms at K = 1024, a tenth up to 15 G."""
    latency = 2 * 1023 * 5e-6
    parameters = np.array([1e6, 1e9, 15e9, 16e9])
    times = [
        training.all_reduce_seconds(parameters, 1024, BANDWIDTH, alpha=a)
        for a in (0.0, 5e-6)
    ]
    assert times[1] - times[0] == pytest.approx(latency)
    assert (latency / times[0] >= 0.1).tolist() == [True, True, True, False]


def test_a_gather_ahead_is_free_from_equality_on() -> None:
    """At f = g the factors are 5/3, 4/3, 1 and 2; ahead is never above 1.5."""
    least, *others = training.layer_seconds(1.0, 1.0).values()
    assert np.allclose(np.divide(others, least), [5 / 3, 4 / 3, 1, 2])
    forward = np.geomspace(1e-3, 1e3, 101)
    by_name = training.layer_seconds(forward, 1.0)
    ratio = by_name["ZeRO-3 one layer ahead"] / by_name["data parallel"]
    assert (ratio[forward >= 1] == 1).all() and 1.49 < ratio.max() < 1.5


def test_tokens_at_equality_make_both_times_equal() -> None:
    """With them a layer computes forward as long as a ring gathers it."""
    tokens = training.tokens_at_equality(8, *RATES)
    parameters = 1e8
    gather = 7 / 8 * 2 * parameters / RATES[1]
    assert 2 * parameters * tokens / RATES[0] == pytest.approx(gather)


@pytest.mark.parametrize(
    ("interval", "checkpoint", "restart"),
    [(1200, 60, 0), (300, 60, 600), (7200, 6, 90)],
)
def test_time_divides_as_in_a_run_that_fails(interval, checkpoint, restart) -> None:
    """A run played step by step, failure by failure, has the four shares."""
    random, mean, runs = np.random.default_rng(14), 11_000.0, 40_000
    effective = writing = repeated = 0.0
    for up in random.exponential(mean, runs):
        kept = int(up // (interval + checkpoint))
        effective += kept * interval
        writing += kept * checkpoint
        repeated += up - kept * (interval + checkpoint)
    whole = effective + writing + repeated + runs * restart
    played = np.array([effective, writing, repeated, runs * restart]) / whole
    shares = failures.shares_of_time(interval, checkpoint, mean, restart)
    assert np.allclose(shares, played, atol=0.004)
    assert np.isclose(sum(shares), 1) and np.isclose(shares.lost, 1 - played[0], 0.05)


def test_the_interval_of_young_loses_nearly_the_least() -> None:
    """Of all intervals from seconds to days, none is better by a hundredth."""
    intervals = np.geomspace(1, 1e6, 2000)
    for checkpoint, mean in (1, 86400), (60, 11_000), (300, 43_200):
        least = failures.shares_of_time(intervals, checkpoint, mean).lost.min()
        young = failures.best_interval(checkpoint, mean)
        lost = failures.shares_of_time(young, checkpoint, mean).lost
        assert lost < 1.01 * least
        twice = failures.shares_of_time(2 * young, checkpoint, mean).lost
        assert 1.15 < twice / least < 1.3


def test_a_bucket_closes_when_it_has_reached_its_size():
    """The first one early; the last one has what is left, and nothing gets lost."""
    parts = [(1.0, 4)] * 7
    made = list(buckets.in_buckets(parts, cap=10, first=3))
    assert made == [(1.0, 4), (3.0, 12), (3.0, 12)]
    assert list(buckets.in_buckets(parts, cap=100, first=100)) == [(7.0, 28)]


def test_the_network_carries_one_bucket_after_the_other():
    """A bucket waits until it is full and until the one before has gone."""
    parts = [(1.0, 10), (1.0, 30), (9.0, 10)]
    spans = list(buckets.on_the_network(parts, per_call=1.0, per_byte=0.1))
    assert spans == [(1.0, 3.0), (3.0, 7.0), (11.0, 13.0)]


def test_a_packed_sum_sends_and_moves_what_its_messages_have() -> None:
    """Bytes of the wire are those of the codecs, those of memory counted by hand."""
    from collectives_lab.parallel.compression import Int8, Signs, bytes_sent  # torch

    count = 2**20
    for way, codec in (("a byte", Int8()), ("a bit, feedback", Signs())):
        sent = compression.WAYS[way].sent(4) * count
        assert sent == pytest.approx(bytes_sent(count, codec, 4))
    assert compression.WAYS["float32"].sent(4) == 6 and compression.BYTE == 260 / 256
    byte = compression.Way(1, held=4)
    pack, add, unpack = 4 + 1, 1 + 1 / 4, 1 + 4
    assert byte.moved(4) == pack + add + unpack
    assert compression.Way(1, held=4, every=10).moved(4) == byte.moved(4) / 10
    kept = compression.Way(1, held=4, feedback=True).moved(4) - byte.moved(4)
    assert kept == 2 * 4 + 2 * 4 / 4, "each left-out number is read and written"


def test_packing_pays_up_to_where_both_take_as_long() -> None:
    """At this bandwidth the steps are equal; what packs nothing has no limit."""
    byte, plain = (compression.WAYS[name] for name in ("a byte", "bfloat16"))
    limit = compression.pays_up_to(byte, plain, memory=3e12, world_size=8)
    both = [compression.parts(w, 1e8, 0.1, limit, 3e12, 8) for w in (byte, plain)]
    assert sum(both[0]) == pytest.approx(sum(both[1]))
    assert both[0].computing == 0.1 and both[1].packing == 0
    hidden, last_alone = 0.05, []  # of a byte, and of bfloat16
    for memory in (1e10, 2e11, 3e12):
        limit = compression.pays_up_to(byte, plain, memory, 8, hidden / 1e8)
        rest = 1e8, 0.1, limit, memory, 8, hidden
        both = [compression.parts(w, *rest) for w in (byte, plain)]
        assert sum(both[0]) == pytest.approx(sum(both[1]))
        alone = (compression.parts(w, *rest[:-1]).sending / 10 for w in (byte, plain))
        last_alone.append([p.sending == x for p, x in zip(both, alone, strict=True)])
    assert last_alone == [[False, False], [True, False], [True, True]]
    tenth = compression.WAYS["float32, every 10th step"]
    assert compression.parts(tenth, *rest) == compression.parts(tenth, *rest[:-1])
    whole = compression.WAYS["float32"]
    assert compression.pays_up_to(plain, whole, 3e12, 8, hidden) == float("inf")
    assert compression.pays_up_to(whole, plain, 3e12, 8) == 0


@pytest.mark.parametrize("sending", [0.01, 0.2])
def test_of_a_sum_in_buckets_the_last_stays_exposed(sending: float) -> None:
    """The part that is not hidden is that of buckets on a link, one after the other."""
    way, count, backward = compression.Way(1), 4, 0.08
    nbytes = way.sent(2)  # of a step of one number
    spans = buckets.on_the_network(
        [(backward / count, nbytes / count)] * count, 0.0, sending / nbytes
    )
    *_, (_, end) = spans
    hidden = backward * (1 - 1 / count)
    parts = compression.parts(way, 1, 0.1, nbytes / sending, 1e12, 2, hidden, count)
    assert parts.sending == pytest.approx(end - backward)
