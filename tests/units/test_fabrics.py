"""Links and clusters: their figures, their orders, and what they refuse."""

import numpy as np
import pytest

from collectives_lab import fabrics
from collectives_lab.fabrics import Link


def stages(fabric, src, dst, nbytes):
    """By name of the link: seconds it is taken and seconds to the far end."""
    ends = (np.array([n]) for n in (src, dst, nbytes))
    return {
        s.names.format(s.link[0]): (s.busy[0], s.through[0])
        for s in fabric.stages(*ends)
        if s.link[0] >= 0
    }


def test_a_link_takes_alpha_and_beta() -> None:
    """A message of n bytes takes alpha + n beta, and a bandwidth is 1 / beta."""
    link = Link.of(2e-6, 50e9)
    assert link.time(10**6) == pytest.approx(22e-6)
    assert link.bandwidth == pytest.approx(50e9)
    assert link.half_size * link.beta == pytest.approx(link.alpha)
    assert Link(1e-6, 0).bandwidth == Link(1e-6, 0).half_size == float("inf")


@pytest.mark.parametrize(
    "make, complaint",
    [
        (lambda: Link(-1e-6, 0), "alpha is -1e-06"),
        (lambda: Link(0, float("nan")), "beta is nan"),
        (lambda: Link.of(0, -50e9), "bandwidth is -50000000000.0"),
        (lambda: Link.of(0, 0), "bandwidth is 0"),
        (lambda: fabrics.uniform(0, 0, 0), "world_size is 0"),
        (lambda: fabrics.uniform(1.5, 0, 0), "world_size is 1.5"),
        (lambda: fabrics.uniform(4, 0, -1), "beta is -1"),
        (lambda: fabrics.dgx_h100(0), "nodes is 0"),
        (lambda: fabrics.ethernet(0, 4), "gigabits is 0"),
        (lambda: fabrics.ethernet("x", 4), "gigabits is 'x'; need a number"),
        (lambda: fabrics.ethernet(1, "4"), "world_size is '4'; need a whole number"),
        (lambda: Link(None, 0), "alpha is None; need a number"),
        (lambda: Link(1, 0, overhead=-1), "overhead is -1"),
        (lambda: Link(1, 0, gap=float("inf")), "gap is inf"),
        (lambda: Link(1, 0, overhead=2), "overhead is 2 .* parts of alpha, 1"),
        (lambda: Link.of(1, 1, gap=1.5), "gap 1.5; both are parts of alpha, 1"),
        (lambda: Link.of(0, "fast"), "bandwidth is 'fast'; need a number"),
        (
            lambda: fabrics.hierarchical(2, 8, Link(0, 0), Link(0, 0), 1, "x"),
            "oversubscription is 'x'; need a number",
        ),
        (lambda: fabrics.uniform(3, 0, 0).with_slow_rank(0, "x"), "factor is 'x'"),
        (
            lambda: fabrics.hierarchical(2, 8, Link(0, 0), Link(0, 0), 3),
            "8 ranks a node cannot share 3 NICs",
        ),
        (
            lambda: fabrics.hierarchical(2, 8, Link(0, 0), Link(0, 0), 1, 0.5),
            "oversubscription is 0.5",
        ),
        (lambda: fabrics.dgx_h100().permuted([0, 1, 2]), "is no order of 8 ranks"),
        (lambda: fabrics.uniform(3, 0, 0).permuted([0, 1, 1]), "is no order of 3"),
        (lambda: fabrics.uniform(3, 0, 0).with_slow_rank(3, 2), "rank 3; need"),
        (lambda: fabrics.uniform(3, 0, 0).with_slow_rank(0, 0), "factor is 0"),
        (lambda: fabrics.uniform(3, 0, 0).slowed(-1), "factor is -1"),
        (lambda: fabrics.uniform(3, 0, 0).with_slow_link(0, 9, 2), "rank 9; need"),
    ],
)
def test_what_cannot_be_is_refused(make, complaint: str) -> None:
    """Bad figures are refused with what was found and what is needed."""
    with pytest.raises(ValueError, match=complaint):
        make()


def test_presets_have_one_way_bandwidths() -> None:
    """Vendors count NVLink both ways, and a fabric counts one."""
    a100, h100 = fabrics.dgx_a100(2), fabrics.dgx_h100(2)
    assert a100.inside.bandwidth == pytest.approx(600e9 / 2)
    assert h100.inside.bandwidth == pytest.approx(900e9 / 2)
    assert a100.across.bandwidth == pytest.approx(200e9 / 8)
    assert h100.across.bandwidth == pytest.approx(400e9 / 8)
    ratios = [f.inside.bandwidth / f.across.bandwidth for f in (a100, h100)]
    assert ratios == pytest.approx([12, 9])
    others = (fabrics.pcie_box(), fabrics.ethernet(25, 5), fabrics.loopback(3))
    assert [f.world_size for f in (a100, *others)] == [16, 8, 5, 3]
    assert len(np.unique(fabrics.cloud_p4d(3).nic)) == 12


def test_messages_pass_what_lies_between() -> None:
    """Inside a node there are ports only; between nodes the NICs and the spine too."""
    fabric = fabrics.hierarchical(2, 2, Link(1.0, 0.25), Link(3.0, 0.5), 1, 2.0)
    assert stages(fabric, 0, 1, 8) == {
        "rank 0 out": (3.0, 3.0),
        "rank 1 in": (3.0, 3.0),
    }
    assert stages(fabric, 1, 2, 8) == {
        "rank 1 out to other nodes": (7.0, 7.0),
        "NIC 0 out": (4.0, 7.0),
        "spine": (4.0, 7.0),
        "NIC 1 in": (4.0, 7.0),
        "rank 2 in from other nodes": (7.0, 7.0),
    }


def test_a_link_says_what_of_alpha_keeps_somebody_busy() -> None:
    """As in LogGP; without a gap a port is taken for all of alpha, as in Hockney's."""
    link = Link(4.0, 0.5, overhead=1.0, gap=0.25)
    fabric = fabrics.hierarchical(2, 2, link, Link(4.0, 0.5), 2)
    assert stages(fabric, 0, 1, 8) == {
        "rank 0 sends": (1.0, 1.0),
        "rank 0 out": (4.25, 8.0),
        "rank 1 in": (4.25, 8.0),
    }
    assert stages(fabric, 0, 2, 8)["rank 0 out to other nodes"] == (8.0, 8.0)
    assert link.time(8) == Link(4.0, 0.5).time(8) == 8.0


def test_a_nic_of_ones_own_is_no_stage() -> None:
    """With a NIC for each rank the ports say it all."""
    assert list(stages(fabrics.dgx_h100(2), 0, 8, 8)) == [
        "rank 0 sends",
        "rank 0 out to other nodes",
        "rank 8 in from other nodes",
    ]


def test_an_order_moves_ranks() -> None:
    """permuted([...]) puts rank r where rank order[r] was, one after the other."""
    fabric = fabrics.dgx_h100(2).permuted([0, 8, *range(1, 8), *range(9, 16)])
    assert fabric.node[fabric.place].tolist()[:3] == [0, 1, 0]
    back = fabric.permuted(np.argsort(fabric.place))
    assert back.place.tolist() == list(range(16))


def test_an_order_leaves_what_is_slow_where_it_is() -> None:
    """The broken cable and the slow machine do not move with the numbers."""
    broken = fabrics.dgx_h100().with_slow_link(3, 4, 5).with_slow_rank(6, 2)
    fabric = broken.permuted([4, 3, 6, 0, 1, 2, 5, 7])
    assert fabric.slow == (((1, 0), 5),)
    assert fabric.pace.tolist() == [1, 1, 2, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "fabric",
    [
        fabrics.dgx_h100(2).permuted([*range(8, 16), *range(8)]),
        fabrics.hierarchical(2, 2, Link(1, 2, 0.25, 0.5), Link(3, 4), 1, 2.0),
        fabrics.ethernet(25, 3).with_slow_rank(1, 2).with_slow_link(0, 2, 3),
    ],
)
def test_slower_links_leave_the_shape(fabric) -> None:
    """Everything on the way of any message takes so many times as long, and no more."""
    slower = fabric.slowed(8.0)
    for src, dst in ((0, 1), (0, 2), (fabric.world_size - 1, 0)):
        before, after = (stages(f, src, dst, 1000) for f in (fabric, slower))
        assert after == {k: (8 * a, 8 * b) for k, (a, b) in before.items()}
    assert slower.machine is None, "no machine has such links"


def test_slow_ranks_and_links() -> None:
    """A slow rank takes longer at its ports, a slow link one way on both of them."""
    fabric = fabrics.uniform(3, 1.0, 1.0)
    slow = fabric.with_slow_rank(1, 2.0)
    assert stages(slow, 0, 1, 3) == {"rank 0 out": (4, 4), "rank 1 in": (8, 8)}
    link = fabric.with_slow_link(0, 1, 10)
    assert stages(link, 0, 1, 3) == {"rank 0 out": (40, 40), "rank 1 in": (40, 40)}
    assert stages(link, 1, 0, 3) == {"rank 1 out": (4, 4), "rank 0 in": (4, 4)}
    assert stages(fabric, 0, 1, 3) == {"rank 0 out": (4, 4), "rank 1 in": (4, 4)}
