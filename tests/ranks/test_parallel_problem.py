"""The problem that all systems train on: it is learnt, and falls apart into shares."""

import hashlib
import math

import pytest
import torch

from collectives_lab.parallel import problem


def gradients(model):
    """All gradients in one vector, forgotten by the model."""
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad()
    return flat


def test_the_loss_falls() -> None:
    """In 100 steps the model learns far more than how often each letter comes."""
    losses = problem.train(100)
    assert losses[0] > 0.9 * math.log(problem.VOCABULARY)
    assert sum(losses[-10:]) / 10 < 0.6 * losses[0]
    letters = problem.corpus().long().bincount() / len(problem.corpus())
    entropy = -(letters * letters.log()).nansum().item()
    assert sum(losses[-10:]) / 10 < entropy - 0.3


def test_everything_follows_from_seeds() -> None:
    """Two who ask get the same model and batch, and other seeds others."""
    state = torch.get_rng_state()
    one, same, other = (
        torch.nn.utils.parameters_to_vector(problem.new_model(seed=s).parameters())
        for s in (0, 0, 1)
    )
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert torch.equal(problem.batch(3).inputs, problem.batch(3).inputs)
    assert not torch.equal(problem.batch(3).inputs, problem.batch(4).inputs)
    assert torch.equal(state, torch.get_rng_state())


def test_a_target_is_the_next_letter() -> None:
    """Inputs and targets are windows of the text, one letter apart."""
    inputs, targets = problem.batch(0, 5)
    assert inputs.shape == targets.shape == (5, problem.LENGTH)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    text = bytes(problem.corpus())
    assert all(bytes(row) in text for row in inputs.to(torch.uint8).tolist())


def test_no_prediction_sees_the_future() -> None:
    """A logit depends on the letters up to its own."""
    model, letters = problem.new_model(), problem.batch(0, 2).inputs.clone()
    before = model(letters)
    letters[:, 20:] = 0
    after = model(letters)
    assert torch.equal(before[:, :20], after[:, :20])
    assert not torch.allclose(before[:, 20:], after[:, 20:])


def in_shares(loss, count: int) -> tuple[float, torch.Tensor]:
    """Loss and gradients added up over the shares of a batch of 10."""
    model, examples = problem.new_model(dtype=torch.float64), problem.batch(0, 10)
    total = 0.0
    for index in range(count):
        value = loss(model, examples.share(index, count))
        value.backward()
        total += value.item()
    return total, gradients(model)


@pytest.mark.parametrize("count", [2, 3, 4, 10])
def test_shares_add_up_to_the_batch(count: int) -> None:
    """However uneven the shares, losses and gradients add up; means of means do not."""
    whole, gradient = in_shares(problem.loss, 1)
    loss, summed = in_shares(lambda m, e: problem.loss(m, e, whole=10), count)
    assert loss == pytest.approx(whole, rel=1e-14)
    assert torch.allclose(summed, gradient, rtol=1e-12, atol=1e-15)
    wrong, _ = in_shares(lambda m, e: problem.loss(m, e) / count, count)
    assert (wrong == pytest.approx(whole, rel=1e-9)) == (10 % count == 0)


def test_a_share_may_be_empty() -> None:
    """More ranks than examples: some have nothing, and a loss of 0."""
    model, examples = problem.new_model(), problem.batch(0, 2)
    losses = [problem.loss(model, examples.share(r, 3), 2).item() for r in range(3)]
    assert losses[2] == 0 and min(losses[:2]) > 0


def test_sizes_are_multiples_of_eight() -> None:
    """2, 4 and 8 ranks share every parameter without a rest."""
    sizes = [p.numel() for p in problem.new_model().parameters()]
    assert all(size % 8 == 0 for size in sizes)
    assert 30_000 < sum(sizes) < 40_000


def test_losses_of_shares_become_a_curve() -> None:
    """By rank and step, they add up by step."""
    assert problem.added_up([[1, 2, 3], [10, 20, 30]]) == [11, 22, 33]


def test_every_python_trains_on_the_same_text() -> None:
    """Each version has help texts of its own, and losses that differ by a tenth."""
    letters = problem.corpus().numpy().tobytes()
    digest = hashlib.sha256(letters).hexdigest()
    assert len(letters) == 464_473 and digest.startswith("b61d082f373f6083")
