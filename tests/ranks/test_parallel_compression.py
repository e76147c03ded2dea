"""Compressed sums and 1-bit Adam: what they lose, and what they send."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from conftest import Standing
from parallel_battery import (
    BATCH,
    COUNT,
    STEPS,
    Curves,
    S,
    System,
    Trained,
    broadcast_and_then,
    flat,
    new_model,
    replicated,
)
from torch import nn

import collectives_lab as lab
from collectives_lab.parallel import compression, data, one_bit, problem
from collectives_lab.parallel.compression import (
    Codec,
    Errors,
    Int8,
    Signs,
    bytes_sent,
    compressed_all_reduce,
)

pytestmark = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])

CODECS = [Int8(), Int8(5), Signs(), Signs(12)]


@dataclass(frozen=True)
class Whole:
    """A codec that loses nothing: eight bytes a number."""

    def nbytes(self, count: int) -> int:
        return 8 * count

    def encode(self, numbers: torch.Tensor) -> torch.Tensor:
        return numbers.double().view(torch.uint8)

    def decode(self, message: torch.Tensor, count: int) -> torch.Tensor:
        return message[: 8 * count].clone().view(torch.float64)


# -- codecs ----------------------------------------------------------------------------


def some_numbers(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("codec", [*CODECS, Whole()], ids=str)
@pytest.mark.parametrize("count", [0, 1, 4, 5, 7, 8, 9, 24, 1023, 1025])
def test_a_message_is_as_long_as_it_says(codec: Codec, count: int) -> None:
    """In bytes, and it gives so many numbers, whatever fills it up."""
    message = codec.encode(some_numbers(count))
    assert message.dtype == torch.uint8 and len(message) == codec.nbytes(count)
    read = codec.decode(message, count)
    assert read.shape == (count,)
    filled = torch.cat([message, message.new_full((9,), 255)])
    assert torch.equal(codec.decode(filled, count), read)


def test_what_a_number_costs() -> None:
    """A byte, or an eighth of it: 4 and 32 times less than a float, but for scales."""
    assert Int8(chunk=256).nbytes(2560) == 2560 + 10 * 4
    assert Signs(chunk=1024).nbytes(10240) == 10240 / 8 + 10 * 4


def test_int8_errs_by_half_a_scale() -> None:
    """Each chunk has a scale of its own, so small numbers keep their digits."""
    numbers = some_numbers(100) * torch.logspace(-20, 20, 10).repeat_interleave(10)
    codec = Int8(chunk=10)
    error = (codec.decode(codec.encode(numbers), 100) - numbers).abs()
    scales = numbers.view(10, 10).abs().amax(1) / 127
    assert (error.view(10, 10) <= 0.501 * scales[:, None]).all() and error.max() > 0
    one_scale = Int8(chunk=100)
    wrong = one_scale.decode(one_scale.encode(numbers), 100)
    assert (wrong[:50] == 0).all()


def test_int8_keeps_integers() -> None:
    """Where 127 is the greatest, the scale is 1 and nothing is lost; nor is 0."""
    numbers = torch.tensor([127.0, -3, 0, 64, -127])
    codec = Int8()
    assert torch.equal(codec.decode(codec.encode(numbers), 5), numbers)
    assert not codec.decode(codec.encode(torch.zeros(5)), 5).any()


def test_signs_keep_the_mean() -> None:
    """Of each chunk, without signs; the last one's is over the numbers it has."""
    codec = Signs(chunk=4)
    numbers = torch.tensor([1.0, -3, 0, -4, -8, 10])
    read = codec.decode(codec.encode(numbers), 6)
    assert read.tolist() == [2, -2, 2, -2, -9, 9]
    assert codec.encode(numbers)[8:].tolist() == [0b011010]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("codec", [Int8(4), Signs(4)], ids=str)
def test_what_is_no_number_stays_none(codec: Codec, bad: float) -> None:
    """An overflow is not hidden: its chunk is no number either, and only its chunk."""
    numbers = torch.ones(12)
    numbers[5] = bad
    read = codec.decode(codec.encode(numbers), 12).isfinite()
    assert read.tolist() == [True] * 4 + [False] * 4 + [True] * 4


@pytest.mark.parametrize("Kind", [Int8, Signs])
def test_a_chunk_holds_something(Kind: type) -> None:
    """A size of 0 is no size."""
    with pytest.raises(ValueError, match="chunk is 0; need 1 or more numbers"):
        Kind(0)


# -- the sum ---------------------------------------------------------------------------


def given(rank: int, step: int, count: int) -> torch.Tensor:
    """What a rank brings to a sum: of quite different size by rank, step and place."""
    sizes = torch.arange(1, count + 1) % 7 + rank + 1
    return some_numbers(count, 100 * rank + step).double() * sizes


def sums(
    codec: Codec, count: int, feedback: bool, reduce: Callable = compressed_all_reduce
) -> list[torch.Tensor]:
    """Three sums in a row, on this rank."""
    results = []
    errors = Errors.none(torch.zeros(count).double()) if feedback else None
    for step in range(STEPS):
        tensor = given(dist.get_rank(), step, count)
        reduce(tensor, codec, errors)
        results.append(tensor)
    return results


def rounded(codec: Codec, numbers: torch.Tensor) -> torch.Tensor:
    """What is left of numbers, chunk by chunk, computed the plain way."""
    rows = []
    for chunk in numbers.float().split(codec.chunk):
        if not len(chunk):
            continue
        if isinstance(codec, Int8):
            scale = chunk.abs().max() / 127
            rows.append((chunk / scale).round().clamp(-127, 127) * scale)
        else:
            rows.append(torch.where(chunk < 0, -1.0, 1.0) * chunk.abs().mean())
    return torch.cat([*rows, torch.zeros(0)]).double()


def sums_of_one_process(
    codec: Codec, count: int, feedback: bool, world_size: int
) -> list[torch.Tensor]:
    """The same three sums, of all ranks in one process."""
    part = -(-count // world_size)
    left = [torch.zeros(count).double() for _ in range(world_size)]
    kept = list(torch.zeros(count).double().split(part))
    results = []
    for step in range(STEPS):
        numbers = [given(r, step, count) + left[r] for r in range(world_size)]
        sent = [
            torch.cat([rounded(codec, p) for p in row.split(part)]) for row in numbers
        ]
        whole = [
            sum(parts) + e for parts, e in zip(_by_part(sent, part), kept, strict=True)
        ]
        back = [rounded(codec, p) for p in whole]
        if feedback:
            left = [n - s for n, s in zip(numbers, sent, strict=True)]
            kept = [w - b for w, b in zip(whole, back, strict=True)]
        results.append(torch.cat(back))
    return results


def _by_part(rows: list[torch.Tensor], part: int) -> list[tuple[torch.Tensor, ...]]:
    return list(zip(*[row.split(part) for row in rows], strict=True))


def agrees(
    ranks: lab.Ranks, codec: Codec, count: int, feedback: bool, reduce: Callable
) -> bool:
    """Whether all ranks have the sums of one process, and the same in every bit."""
    run = ranks.run(sums, (codec, count, feedback, reduce), timeout=60)
    right = sums_of_one_process(codec, count, feedback, run.world_size)
    return all(
        torch.allclose(actual, expected, rtol=1e-6, atol=1e-6)
        and torch.equal(actual, run.results[0][step])
        for result in run.results
        for step, (actual, expected) in enumerate(zip(result, right, strict=True))
    )


@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize(
    "world_size, count", [(1, 9), (2, 1), (3, 100), (4, 6), (5, 8)]
)
def test_ranks_sum_as_one_process(
    world_size: int, count: int, codec: Codec, feedback: bool, standing: Standing
) -> None:
    """Also where parts are uneven or empty, and with errors that are made up for."""
    ranks = standing(world_size)
    assert agrees(ranks, codec, count, feedback, compressed_all_reduce)


def no_errors(tensor, codec, errors):
    compressed_all_reduce(tensor, codec)


def own_errors_only(tensor, codec, errors):
    compressed_all_reduce(tensor, codec, errors)
    errors.kept.zero_()


def rounded_once(tensor, codec, errors):
    """As if the sums were sent whole."""
    numbers = tensor + errors.given
    tensor.copy_(codec.decode(codec.encode(numbers), len(numbers)))
    errors.given = numbers - tensor
    dist.all_reduce(tensor)


def scale_of_its_own(tensor, codec, errors):
    """Adds up codes, and takes this rank's scale for all."""
    scale = tensor.abs().max() / 127
    codes = (tensor / scale).round()
    dist.all_reduce(codes)
    tensor.copy_(codes * scale)


def without_a_tail(tensor, codec, errors):
    """Forgets what P does not divide."""
    even = len(tensor) - len(tensor) % dist.get_world_size()
    compressed_all_reduce(tensor[:even], codec, Errors.none(tensor[:even]))


@pytest.mark.parametrize(
    "wrong",
    [no_errors, own_errors_only, rounded_once, scale_of_its_own, without_a_tail],
)
def test_a_wrong_sum_is_found(wrong: Callable, standing: Standing) -> None:
    """The test above fails where it should."""
    assert not agrees(standing(3), Int8(), 100, True, wrong)


def test_a_codec_that_loses_nothing_gives_the_sum() -> None:
    """Then it is an all_reduce, of integers without an error, of any shape."""

    def summed() -> torch.Tensor:
        tensor = torch.arange(15.0).view(5, 3).T * 4.0 ** dist.get_rank()
        compressed_all_reduce(tensor, Whole())
        return tensor

    for result in lab.run(summed, 4).results:
        assert torch.equal(result, torch.arange(15.0).view(5, 3).T * 85)


def accounts(codec: Codec, count: int, feedback: bool) -> tuple[torch.Tensor, ...]:
    """All this rank brought, all it got, and what is left out of both phases."""
    errors = Errors.none(torch.zeros(count).double())
    brought, got = torch.zeros(2, count).double()
    for step in range(20):
        tensor = given(dist.get_rank(), step, count)
        brought += tensor
        compressed_all_reduce(tensor, codec, errors if feedback else None)
        got += tensor
    return brought, got, errors.given, errors.kept


@pytest.mark.parametrize("codec", [Int8(), Signs()], ids=str)
def test_nothing_is_lost_for_good(codec: Codec) -> None:
    """What all brought is what came back and what is yet to come, to rounding."""

    def missing(feedback: bool) -> float:
        results = lab.run(accounts, 3, args=(codec, 50, feedback)).results
        brought = sum(r[0] for r in results)
        to_come = sum(r[2] for r in results) + torch.cat([r[3] for r in results])
        return (brought - results[0][1] - to_come).abs().max().item()

    assert missing(feedback=True) < 1e-9
    assert missing(feedback=False) > 0.1


@pytest.mark.parametrize("codec", [Int8(), Signs(), Whole()], ids=str)
@pytest.mark.parametrize("world_size, count", [(1, 9), (2, 33), (3, 1000), (4, 2)])
def test_bytes_of_a_sum_are_predicted(
    world_size: int, count: int, codec: Codec, standing: Standing
) -> None:
    """An all_to_all and an all_gather a sum; all ranks send as much."""
    run = standing(world_size).run(sums, (codec, count, True))
    one = bytes_sent(count, codec, world_size)
    assert run.trace.bytes_sent() == [STEPS * one] * world_size
    assert run.trace.ops() == {
        "all_gather": STEPS * world_size,
        "all_to_all": STEPS * world_size,
    }


def one_sum(codec: Codec | None) -> None:
    tensor = torch.ones(2**18)
    if codec is None:
        dist.all_reduce(tensor)
    else:
        compressed_all_reduce(tensor, codec)


def test_fewer_bytes_are_on_the_wire() -> None:
    """Measured: 4 and 32 times less than an all_reduce, but for scales and headers."""
    runs = [lab.run(one_sum, 4, args=(c,)) for c in (None, Int8(), Signs())]
    by_calls = [run.trace.bytes_sent()[0] for run in runs]
    assert by_calls[0] / by_calls[1] == pytest.approx(4, rel=0.02)
    assert by_calls[0] / by_calls[2] == pytest.approx(32, rel=0.04)
    on_wire = [run.trace.wire_bytes() for run in runs]
    if None in on_wire:
        pytest.skip("this system does not tell what is on the wire")
    for counted, measured in zip(by_calls, on_wire, strict=True):
        assert max(measured) == pytest.approx(counted, rel=0.05, abs=2000)


def test_wrong_input_is_named() -> None:
    """Integers, and errors that belong to another tensor, with the rank."""

    def integers() -> None:
        compressed_all_reduce(torch.ones(4, dtype=torch.int64))

    def other_errors() -> None:
        compressed_all_reduce(torch.ones(4), errors=Errors.none(torch.ones(5)))

    with pytest.raises(lab.RankError, match=r"rank \d: a tensor of torch.int64; need"):
        lab.run(integers, 2)
    with pytest.raises(lab.RankError, match="errors of 5 numbers for a tensor of 4"):
        lab.run(other_errors, 2)


# -- training --------------------------------------------------------------------------


def uncompressed(train: Callable) -> System:
    """Data parallel training: the codec, or the warm-up, is exact."""
    return System(partial(replicated, train), (1, 2, 3, 4), slow=True)


@pytest.mark.parametrize(
    "train",
    [
        partial(compression.train, Int8()),
        partial(one_bit.train, 1),
    ],
    ids=["int8", "1-bit Adam"],
)
def test_compressed_it_is_not(train: Callable, standing: Standing) -> None:
    """Something is lost, as the battery says; but ranks are equal."""
    results = standing(3).run(replicated, (train,)).results
    assert not uncompressed(train).agrees(results)
    assert all(torch.equal(actual, results[0][1]) for _, actual in results)


def sent(codec: Codec, world_size: int) -> list[float]:
    """After the broadcasts, a compressed sum of all gradients a step."""
    return broadcast_and_then(bytes_sent(COUNT, codec, world_size), world_size)


def test_bytes_of_compressed_training(standing: Standing) -> None:
    """As those of its exact rows, by the length of the codec's messages."""
    for codec in (Int8(), Signs()):
        for world_size in (1, 3, 4):
            train = partial(replicated, partial(compression.train, codec))
            actual = standing(world_size).run(train).trace.bytes_sent()
            assert actual == sent(codec, world_size)


# -- 1-bit Adam ------------------------------------------------------------------------


def frozen_adam(codec: Codec | None, world_size: int) -> tuple[Curves, torch.Tensor]:
    """1-bit Adam of all ranks in one process, the plain way; None: no compression."""
    model, warm_up = new_model(), 1
    m, v = torch.zeros(2, COUNT).double()
    left = [torch.zeros(COUNT).double() for _ in range(world_size)]
    part = -(-COUNT // world_size)
    kept = list(torch.zeros(COUNT).double().split(part))
    losses = []
    for t in range(1, STEPS + 1):
        values, gradients = zip(
            *[_gradient(model, t - 1, r, world_size) for r in range(world_size)],
            strict=True,
        )
        losses.append(sum(values))
        if t <= warm_up or codec is None:
            m = 0.9 * m + 0.1 * sum(gradients)
        if t <= warm_up:
            v = 0.999 * v + 0.001 * sum(gradients) ** 2
        elif codec is not None:
            shares = [
                0.9 * m / world_size + 0.1 * g + e
                for g, e in zip(gradients, left, strict=True)
            ]
            sent = [
                torch.cat([rounded(codec, p) for p in s.split(part)]) for s in shares
            ]
            left = [a - b for a, b in zip(shares, sent, strict=True)]
            whole = [a + b for a, b in zip(sum(sent).split(part), kept, strict=True)]
            back = [rounded(codec, w) for w in whole]
            kept = [a - b for a, b in zip(whole, back, strict=True)]
            m = torch.cat(back)
        if t > warm_up:
            m = torch.where(v > 0, m, 0.0)
        step = 0.01 * m / (1 - 0.9**t)
        step /= (v / (1 - 0.999 ** min(t, warm_up))).sqrt() + 1e-8
        nn.utils.vector_to_parameters(flat(model) - step, model.parameters())
    return [losses], flat(model)


def _gradient(model, step, rank, world_size):
    share = problem.batch(step, BATCH).share(rank, world_size)
    loss = problem.loss(model, share, whole=BATCH)
    grads = torch.autograd.grad(loss, list(model.parameters()))
    return loss.item(), torch.cat([g.flatten() for g in grads])


class Unmasked(one_bit.OneBitAdam):
    """Moves parameters whose gradient was always 0."""

    def _compressed(self, gradient):
        super()._compressed(gradient.clone())
        self.momentum = self.momentum.where(self.variance > 0, 1e-6)


class Forgetful(one_bit.OneBitAdam):
    """Loses what it leaves out."""

    def _compressed(self, gradient):
        self.errors = Errors.none(self.momentum)
        super()._compressed(gradient)


class Unfrozen(one_bit.OneBitAdam):
    """Goes on with the variance, from the momentum's signs."""

    def _compressed(self, gradient):
        super()._compressed(gradient)
        self.variance.lerp_(self.momentum.square(), 0.001)


class AllOfIt(one_bit.OneBitAdam):
    """Every rank brings the whole momentum."""

    def _compressed(self, gradient):
        more = 0.9 * (1 - 1 / dist.get_world_size()) * self.momentum
        super()._compressed(gradient + more / 0.1)


def by(Kind: type, **options) -> list[float]:
    one_bit.OneBitAdam = Kind
    return one_bit.train(1, **options)


def one_bit_row(codec: Codec | None, *Wrong: type) -> System:
    """Adam with a variance that is frozen after a step, and with momenta by codec."""

    def kind(Kind: type) -> Callable[[], Trained]:
        return partial(replicated, partial(by, Kind, codec=codec or Whole()))

    return System(
        kind(one_bit.OneBitAdam),
        (1, 2, 3),
        alone=partial(frozen_adam, codec),
        wrong={W.__name__: kind(W) for W in Wrong},
        of_losses=1e-6,
        of_parameters=1e-5,
        slow=True,
    )


SYSTEMS = {
    "a codec that loses nothing": replace(
        uncompressed(partial(compression.train, Whole())), sent=partial(sent, Whole())
    ),
    "1-bit Adam that only warms up": uncompressed(partial(one_bit.train, STEPS)),
    "1-bit Adam": one_bit_row(Signs(), Unmasked, Forgetful, Unfrozen, AllOfIt),
    "1-bit Adam, whole": one_bit_row(None),
}


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_bytes_of_one_bit_adam_are_predicted(
    world_size: int, standing: Standing
) -> None:
    """All of the gradient in the warm-up, then some 32 times less, all recorded."""
    run = standing(world_size).run(replicated, (partial(one_bit.train, 2),))
    events = run.trace.of_rank(0)
    sums = [e.nbytes for e in events if e.op == "all_reduce"]
    assert sums == [S, S]
    compressed = bytes_sent(COUNT, Signs(), world_size)
    warm_up = 2 * 2 * S * (world_size - 1)
    start = (world_size - 1) * S
    step = world_size * compressed
    assert sum(run.trace.bytes_sent()) == pytest.approx(start + warm_up + step)
    float32 = 2 * (S / 2) * (world_size - 1) / world_size
    assert 30 < float32 / compressed < 32


def test_a_letter_that_never_comes_stays() -> None:
    """Its vector has no gradient, so no variance, and signs must not move it."""
    model = new_model()
    seen = torch.cat([problem.batch(s, BATCH).inputs.flatten() for s in range(STEPS)])
    never = torch.ones(problem.VOCABULARY, dtype=torch.bool)
    never[seen] = False
    before = model[0].tokens.weight[never].flatten()
    assert len(before) > 100
    _, results = lab.run(replicated, 2, args=(partial(one_bit.train, 1),)).results[0]
    tokens = results[: model[0].tokens.weight.numel()].view(problem.VOCABULARY, -1)
    assert torch.equal(tokens[never].flatten(), before)


def test_one_bit_adam_wants_a_warm_up() -> None:
    """Without one there is no variance to freeze."""
    with pytest.raises(ValueError, match="warm_up is 0; need 1 step or more"):
        one_bit.OneBitAdam([], 0)


# -- side by side ----------------------------------------------------------------------

MANY = 100


@cache
def curve(name: str) -> tuple[float, float]:
    """The mean loss of the last ten of a hundred steps, and bytes of a late step."""
    trains = {
        "all": data.train,
        "int8": compression.train,
        "int8, no feedback": partial(compression.train, feedback=False),
        "signs": partial(compression.train, Signs()),
        "1-bit Adam": partial(one_bit.train, 20),
    }
    past = 21  # the warm-up of 1-bit Adam
    long, short = (lab.run(partial(trains[name], steps=n), 4) for n in (MANY, past))
    losses = problem.added_up(long.results)
    sent = [run.trace.bytes_sent()[0] for run in (long, short)]
    return sum(losses[-10:]) / 10, (sent[0] - sent[1]) / (MANY - past)


@pytest.mark.slow
def test_what_is_lost_and_saved() -> None:
    """A hundred steps: int8 costs nothing, and 1-bit Adam learns where signs do not."""
    loss, sent = curve("all")
    assert abs(curve("int8")[0] - loss) < 0.01 and curve("int8")[1] < sent / 3.9
    assert abs(curve("int8, no feedback")[0] - loss) < 0.01
    assert curve("1-bit Adam")[0] < loss + 0.06
    assert curve("1-bit Adam")[1] == curve("signs")[1] < sent / 30
    # Errors that are made up for and a variance that is not frozen do not go together.
    assert curve("signs")[0] > loss + 0.3
