"""The promises of `costs.nccl`: it says what NCCL itself printed, and why."""

import re
from dataclasses import replace

import numpy as np
import pytest

from collectives_lab import costs
from collectives_lab.costs import nccl
from collectives_lab.data import shipped

H100 = nccl.Cluster(nodes=3, gpus=8, channels=8, ring=24e9, tree=24e9)
"""The cluster of logs A and B. What its channels carry follows from B's lines."""
SOCKETS = nccl.Cluster(2, 1, 2, ring=1.2e9, tree=2.4e9, gpu="Blackwell", link="PCIe")
"""That of log C."""

LOG = shipped("libraries/nccl_tuning.txt").read_text()
PRICED = [
    (int(nbytes), nccl.PROTOCOLS[int(protocol)], float(microseconds))
    for nbytes, protocol, microseconds in re.findall(
        r"(\d+) Bytes -> Algo 0 proto (\d) time ([\d.]+)", LOG
    )
]
LISTED = re.findall(r"([\d.]+)/ *([\d.]+) \|", LOG)
ORDER = [(a, p) for a in ("tree", "ring") for p in nccl.PROTOCOLS]


def off(nbytes: int, protocol: nccl.Protocol, microseconds: float) -> float:
    """How far the price of a tree is from what NCCL printed, as a share."""
    return abs(1e6 * nccl.seconds(H100, nbytes, "tree", protocol) / microseconds - 1)


def test_the_log_has_what_is_tested() -> None:
    """The tests below compare six calls and six columns."""
    assert len(PRICED) == len(LISTED) == 6


@pytest.mark.parametrize("nbytes, protocol, microseconds", PRICED)
def test_a_price_is_the_one_that_nccl_printed(
    nbytes: int, protocol: nccl.Protocol, microseconds: float
) -> None:
    """Choice and time of each call are those of a log, to NCCL's single precision."""
    assert nccl.choose(H100, nbytes) == ("tree", protocol)
    assert off(nbytes, protocol, microseconds) < 1e-6


def test_the_ring_of_the_same_log_has_the_same_channels() -> None:
    """256 MiB in log B: version 2.22 counted two hops more over the network."""
    printed = re.search(r"(\d+) Bytes -> Algo 1 proto 2 time ([\d.]+)", LOG)
    assert printed
    latency = 1e6 * nccl.latency(H100, "ring", "Simple") + 2 * (14 - 3.4)
    rate = nccl.bandwidth(H100, "ring", "Simple")
    ours = 1.4 * latency + 1e6 * int(printed[1]) / rate
    assert abs(ours / float(printed[2]) - 1) < 1e-6


def test_a_price_without_its_correction_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The test above fails where a tree's bandwidth does not sag."""
    monkeypatch.setattr(nccl, "SAGGING", dict.fromkeys(nccl.PROTOCOLS, (10,)))
    assert [off(*call) > 1e-6 for call in PRICED] == [False] * 3 + [True] * 3


@pytest.mark.parametrize("choice, printed", [*zip(ORDER, LISTED, strict=True)])
def test_the_list_is_the_one_that_nccl_printed(
    choice: tuple, printed: tuple[str, str]
) -> None:
    """Latency and bandwidth of each column are those of a log, to its one decimal."""
    assert f"{1e6 * nccl.latency(SOCKETS, *choice):.1f}" == printed[0]
    assert f"{nccl.bandwidth(SOCKETS, *choice) / 1e9:.1f}" == printed[1]


def test_latencies_of_a_tree_are_those_of_a_third_log() -> None:
    """Two nodes of 8 H100: NVIDIA/nccl issue 1519 prints 25.2 and 48.5 µs."""
    two = replace(H100, nodes=2)
    found = [1e6 * nccl.latency(two, "tree", p) for p in ("LL", "LL128")]
    assert np.round(found, 1).tolist() == [25.2, 48.5]


BY_HAND = [
    # 2 (24-1) = 46 steps of the ring, 4 of them over the network, 42 inside
    (H100, "LL", 6.6 + 42 * 1.0 + 4 * 2.7),  # posting takes longer than NVLink
    (replace(H100, cpu="AMD"), "LL", 6.6 + 42 * 2.0 + 4 * 2.7),
    (H100, "LL128", 14 + 42 * 1.9 + 4 * 4.0),
    (H100, "Simple", 8.4 + 42 * 3.4 + 4 * 14),
    (replace(H100, nodes=1), "Simple", 8.4 + 14 * 3.4),  # nothing is posted
    (replace(H100, nodes=1, link="PCIe"), "LL", 6.6 + 14 * 1.0),
    (replace(H100, gpus=1), "LL", 6.6 + 4 * 5.0),  # a tree's hop
]


@pytest.mark.parametrize("cluster, protocol, microseconds", BY_HAND)
def test_a_ring_waits_for_all_its_hops(
    cluster: nccl.Cluster, protocol: nccl.Protocol, microseconds: float
) -> None:
    """The latency of a ring, added up by hand."""
    assert nccl.latency(cluster, "ring", protocol) == pytest.approx(1e-6 * microseconds)


BANDWIDTHS = [
    (H100, "ring", "Simple", 192 * 24 / 46),
    (H100, "ring", "LL", 20.4 * 24 / 46),  # the cap of an Intel CPU, not half of 192
    (replace(H100, nodes=1), "ring", "LL", 96 * 8 / 14),
    (H100, "ring", "LL128", 0.92 * 192 * 24 / 46),
    (H100, "tree", "Simple", 0.92 * 192 * 0.85 / 2),
    (replace(H100, spread=True), "tree", "Simple", 0.92 * 192 / 2),
    (replace(H100, tree=100e9), "tree", "Simple", 8 * 36.0 * 0.85 / 2),
    (replace(H100, nodes=1), "tree", "LL128", 0.92 * 192 * 7 / 9 * 0.85 / 2),
    (replace(H100, link="PCIe"), "tree", "LL128", 0),
]


@pytest.mark.parametrize("cluster, algorithm, protocol, gigabytes", BANDWIDTHS)
def test_a_bandwidth_is_what_is_left_of_the_channels(
    cluster: nccl.Cluster,
    algorithm: nccl.Algorithm,
    protocol: nccl.Protocol,
    gigabytes: float,
) -> None:
    """Each cut and each cap, by hand."""
    found = nccl.bandwidth(cluster, algorithm, protocol)
    assert found == pytest.approx(1e9 * gigabytes)


def test_a_ring_is_our_ring() -> None:
    """Its price is `costs.ring_all_reduce`, with its latency shared over the steps."""
    at = 2.0 ** np.arange(6, 34)
    alpha = nccl.latency(H100, "ring", "LL128") / 46
    ours = costs.ring_all_reduce(24, at, alpha, 1 / (0.92 * 192e9))
    assert np.allclose(nccl.seconds(H100, at, "ring", "LL128"), ours, rtol=1e-12)


def test_a_simple_ring_has_its_plateau() -> None:
    """From 64 bytes a rank and channel on its latency is 1.4 times as long, or 1.9."""
    full = 64 * 16 * 24
    for gpu, factor in ("Hopper", 1.4), ("Volta", 1.9):
        cluster = replace(H100, gpu=gpu)
        first = nccl.latency(cluster, "ring", "Simple")
        rate = nccl.bandwidth(cluster, "ring", "Simple")
        below, at = (
            nccl.seconds(cluster, n, "ring", "Simple") for n in (full - 1, full)
        )
        assert below == pytest.approx(first + (full - 1) / rate)
        assert at == pytest.approx(factor * first + full / rate)


def test_sizes_may_be_an_array() -> None:
    """An array of sizes gives what each alone does, from 0 bytes to a TiB."""
    at = np.array([0, 1, 63, 64, 1000, 2**20, 2**29, 2**40])
    for choice in nccl.CHOICES:
        alone = [nccl.seconds(H100, n, *choice) for n in at]
        assert nccl.seconds(H100, at, *choice).tolist() == alone


def test_what_is_barred_is_not_chosen() -> None:
    """Without NVLink LL128 costs more than anything, at all sizes."""
    boxes = replace(H100, link="PCIe")
    assert nccl.seconds(boxes, 2**20, "tree", "LL128") == np.inf
    assert {nccl.choose(boxes, 2**n)[1] for n in range(36)} == {"LL", "Simple"}


def test_small_sizes_go_to_trees_and_large_ones_to_rings() -> None:
    """What latency decides and what bandwidth does; inside a node nothing is a tree."""
    assert nccl.choose(H100, 2**10)[0] == "tree"
    assert nccl.choose(H100, 2**30) == ("ring", "Simple")
    one = replace(H100, nodes=1)
    assert {nccl.choose(one, 2**n)[0] for n in range(34)} == {"ring"}


@pytest.mark.parametrize(
    "wrong, complaint",
    [
        ({"gpu": "Pascal"}, "gpu is 'Pascal'; need one of Volta"),
        ({"cpu": "ARM"}, "cpu is 'ARM'; need one of Intel, AMD"),
        ({"link": "network"}, "link is 'network'; need one of NVLink, PCIe"),
        ({"nodes": 0}, "nodes is 0; need 1 or more"),
        ({"nodes": 1, "gpus": 1}, "need 2 or more"),
    ],
)
def test_a_wrong_cluster_is_said(wrong: dict, complaint: str) -> None:
    """What NCCL's tables do not have is an error with what they have."""
    with pytest.raises(ValueError, match=complaint):
        replace(H100, **wrong)


def test_a_wrong_protocol_or_size_is_said() -> None:
    """So are an unknown protocol, and fewer than no bytes."""
    with pytest.raises(ValueError, match="protocol is 'LL64'"):
        nccl.latency(H100, "ring", "LL64")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"nbytes is -1\.0; need 0"):
        nccl.seconds(H100, -1, "ring", "LL")
