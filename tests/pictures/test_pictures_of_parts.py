"""Pictures of what algorithms run on and work on: clusters, matrices, experts."""

import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.text import Annotation
from test_plots import assert_readable, texts

from collectives_lab import fabrics, plans, plots
from collectives_lab.data import shipped
from collectives_lab.plots.attention_picture import ORDERS
from collectives_lab.plots.capacity_picture import capacity_bars
from collectives_lab.plots.cluster_layout import THICKEST, THINNEST
from collectives_lab.plots.figure import INK, PHONE, Diagram, rank_color
from collectives_lab.plots.series import series_colors

LINKS = fabrics.Link.of(1e-6, 1e11), fabrics.Link.of(1e-5, 1e10)
CLUSTERS = {
    "DGX": fabrics.dgx_h100(2),
    "one DGX": fabrics.dgx_a100(),
    "shared cards": fabrics.cloud_p4d(2),
    "many nodes": fabrics.aws_p3dn(16),
    "racks": fabrics.gb200_nvl72(144),
    "sockets": fabrics.pcie_box(),
    "machines of one rank": fabrics.ethernet(25, 40),
    "no nodes": fabrics.uniform(8, 1e-5, 1e-10),
    "a spine": fabrics.hierarchical(3, 2, *LINKS, oversubscription=4),
}


def written(figure: Diagram) -> list[str]:
    return [text.get_text() for text in texts(figure)]


@cache
def cluster(name: str) -> Diagram:
    """The picture of one of the clusters, made once; no test may change it."""
    return plots.cluster(CLUSTERS[name])


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_can_be_read(name: str) -> None:
    """No word covers another one, and the picture is no wider than a page."""
    figure = cluster(name)
    assert_readable(figure)
    assert figure.get_figwidth() < 9.5


def test_every_rank_is_on_its_gpu_with_its_links() -> None:
    """GPUs have the colours of their ranks; links are as wide as they are fast."""
    figure = cluster("DGX")
    assert [int(word) for word in written(figure) if word.isdigit()] == [*range(16)]
    (ax,) = figure.axes
    boxes = [p.get_facecolor()[:3] for p in ax.patches if type(p) is FancyBboxPatch]
    for rank in range(16):
        gpus = [b for b in boxes if b == pytest.approx(_rgb(rank_color(rank)))]
        assert len(gpus) == 2, "ranks eight apart share a colour"
    widths = sorted(line.get_linewidth() for line in ax.lines)
    assert widths.count(THICKEST) == widths.count(THICKEST * 50 / 450) == 16
    assert widths.count(THINNEST) == 32, "from a GPU to its card, of unknown speed"
    assert {"NVLink: 450 GB/s", "50 GB/s a card", "InfiniBand"} <= {*written(figure)}
    assert "450 GB/s" in figure.alt and "Network cards of a node: 8" in figure.alt


def _rgb(color: str) -> list[float]:
    return [int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)]


def test_ranks_stand_where_they_were_placed() -> None:
    """A picture of a permuted cluster has its ranks in their new order."""
    order = [3, 1, 0, 2]
    fabric = fabrics.hierarchical(2, 2, *LINKS).permuted(order)
    ranks = [int(word) for word in written(plots.cluster(fabric)) if word.isdigit()]
    assert [fabric.place[rank] for rank in ranks] == [0, 1, 2, 3] and ranks != order


def test_cards_are_as_many_as_ranks_share() -> None:
    """Two GPUs on one card make four cards in a node of eight."""
    lines = plots.cluster(fabrics.cloud_p4d()).axes[0].lines
    slow = [line for line in lines if line.get_linewidth() == THINNEST]
    assert len(slow) == 8 + 4 + 4, "to PCIe, to a card, to the network"


def test_what_is_left_out_is_dots() -> None:
    """Of many nodes the first ones and the last, and of many GPUs too."""
    words = written(cluster("racks"))
    assert words.count("…") == 2 and {"71", "143"} <= {*words} and "6" not in words
    words = written(cluster("many nodes"))
    assert {"node 0", "…", "node 15"} <= {*words} and "node 1" not in words


def blocks(figure: Diagram) -> list[tuple[float, ...]]:
    """Left, top, width and height of each block."""
    kind = [p for p in figure.axes[0].patches if type(p) is Rectangle]
    places = [(*p.get_xy(), p.get_width(), p.get_height()) for p in kind]
    return [tuple(round(float(inches), 3) for inches in place) for place in places]


def test_a_pair_of_layers_is_drawn_in_blocks() -> None:
    """Columns beside each other, rows below each other, terms on each other."""
    matrices = [
        plots.Matrix("W", 4, 8, cut, 4, "h × 4h") for cut in ("columns", "rows")
    ]
    figure = plots.product(matrices[0], "×", matrices[1], unit=0.2)
    assert_readable(figure)
    columns, rows = blocks(figure)[:4], blocks(figure)[4:]
    assert {b[2:] for b in columns} == {(0.4, 0.8)}
    assert len({b[1] for b in columns}) == 1 and len({b[0] for b in columns}) == 4
    assert {b[2:] for b in rows} == {(1.6, 0.2)}
    assert len({b[0] for b in rows}) == 1 and len({b[1] for b in rows}) == 4
    assert "W in 4 blocks of rows, one a rank" in figure.alt


def test_terms_of_a_sum_lie_on_each_other() -> None:
    """Each rank's is whole, with its number where the next one leaves room."""
    terms, whole = (plots.Matrix("z", 6, 4, cut, 8) for cut in ("terms", None))
    figure = plots.product(terms, "all_reduce →", whole, unit=0.2)
    assert_readable(figure)
    assert len({b[2:] for b in blocks(figure)}) == 1 and len(blocks(figure)) == 9
    assert written(figure).count("all") == 1


def test_what_is_no_row_of_matrices_is_refused() -> None:
    """With what was found, and what is needed."""
    with pytest.raises(ValueError, match="no matrix to draw"):
        plots.product("=", unit=1)
    with pytest.raises(ValueError, match=r"at most 9\.5, so a smaller unit"):
        plots.product(plots.Matrix("x", 4, 4), unit=3)
    with pytest.raises(ValueError, match="need columns, rows, terms or None"):
        plots.Matrix("x", 4, 4, "diagonals")
    with pytest.raises(ValueError, match="a side or ranks of 0"):
        plots.Matrix("x", 0, 4)


ROOT_ONLY, ALL = [[1, 0], [1, 0]], [[1, 1], [1, 1]]


def test_a_verb_is_drawn_as_its_matrix() -> None:
    """A one has the colour of the rank that it comes from, a zero has none."""
    matrices = {"broadcast": ROOT_ONLY, "all_reduce": ALL}
    figure = plots.verb_matrices(matrices, ranks=2)
    assert_readable(figure)
    drawn = [ax.images[0].get_array() for ax in figure.axes]
    assert drawn[0][:, 1].any() == 0 and drawn[0][1, 0, 3] == 1
    for rank in range(2):
        assert drawn[1][0, rank, :3].tolist() == pytest.approx(_rgb(rank_color(rank)))
    assert "broadcast: to rank 0 from 0, to rank 1 from 0" in figure.alt
    assert "all_reduce: to rank 0 from 0 1" in figure.alt
    with pytest.raises(ValueError, match="rows and columns that 3 ranks share evenly"):
        plots.verb_matrices(matrices, ranks=3)


def test_copy_and_sum_stand_around_layers() -> None:
    """Each rank has a lane, and a verb is in bold where it moves data."""
    figure = plots.copy_and_sum(["up", "relu", "down"], ranks=3)
    assert_readable(figure)
    words = written(figure)
    assert words.count("relu") == 3 and words.count("nothing") == 2
    bold = [t for t in texts(figure) if t.get_weight() == "bold"]
    (forward, backward) = sorted(bold, key=lambda text: text.get_position()[1])
    copy, added = (
        next(t for t in texts(figure) if t.get_text() == name).get_position()[0]
        for name in ("Copy", "Sum")
    )
    assert forward.get_position()[0] == added, "forward, Sum moves data"
    assert backward.get_position()[0] == copy, "backward, Copy does"
    with pytest.raises(ValueError, match="0 layers of 2 ranks; need one layer"):
        plots.copy_and_sum([])


def test_the_gradients_of_a_sum_come_from_one_loss_or_from_many() -> None:
    """A loss of each rank adds 1 to every gradient; from one loss it is 1."""
    for is_one, gradient in ((False, 3), (True, 1)):
        figure = plots.losses_of_sum(3, is_one=is_one)
        assert_readable(figure)
        words = Counter(written(figure))
        assert words["x"] == words["loss"] == words["y"] == 3, "a copy on each rank"
        assert words["all_reduce"] == (1 if is_one else 3), "or a box"
        of_x, of_y = Counter({str(gradient): 3}), Counter({"1": 3})
        drawn = {word: n for word, n in words.items() if word.isdigit()}
        assert drawn == of_x + of_y
        bold = [t.get_text() for t in texts(figure) if t.get_weight() == "bold"]
        assert len(bold) == (1 if is_one else 2) == 2 - words["nothing"]
        assert f"the gradient of x is {gradient} on every rank" in figure.alt
    with pytest.raises(ValueError, match="a sum over 1 ranks; need two or more"):
        plots.losses_of_sum(1, is_one=True)


def test_a_merge_is_drawn_as_a_tree() -> None:
    """A node holds what the merge returned, in the colour of the rank it is from."""
    items = [7.5, 3.5, 9.5]
    trees = {"max": ((0, 1), 2), "first": (2, (1, 0))}
    figure = plots.merge_trees(trees, items, max)
    assert_readable(figure)
    assert written(figure).count("9.5") == 4 and written(figure).count("7.5") == 4
    assert "((0 with 1) with 2) gives 9.5" in figure.alt
    top = next(t for t in texts(figure) if t.get_position() == (1.25, 2))
    color = top.get_bbox_patch().get_facecolor()[:3]
    assert color == pytest.approx(_rgb(rank_color(2)))
    figure = plots.merge_trees({"sum": (0, 1)}, items, lambda a, b: a + b)
    top = next(t for t in texts(figure) if t.get_text() == "11.0")
    color = top.get_bbox_patch().get_facecolor()[:3]
    assert color == pytest.approx(_rgb(INK)), "a sum is no rank's"
    with pytest.raises(ValueError, match="rank 3 has no item; need 0 to 2"):
        plots.merge_trees({"all": (0, 3)}, items, max)
    with pytest.raises(ValueError, match="no tree to draw"):
        plots.merge_trees({}, items, max)


CHOICES = [[0, 2, 0], [1, 0], [], [2, 2, 1]]
"""The experts that the tokens of four ranks choose; nobody wants expert 3."""


def test_tokens_of_experts_can_be_read() -> None:
    """Every token is at home, beside its expert, and at home again, in its colour."""
    figure = plots.expert_layer(CHOICES)
    assert_readable(figure)
    (ax,) = figure.axes
    drawn = [(tuple(c.get_facecolor()[0][:3]), len(c.get_offsets()))
             for c in ax.collections]  # fmt: skip
    due = [
        (tuple(_rgb(rank_color(r))), 4) for r, row in enumerate(CHOICES) for _ in row
    ]
    assert np.allclose([c for c, _ in sorted(drawn)], [c for c, _ in sorted(due)])
    assert [n for _, n in drawn] == 8 * [4], "four places of each token"
    numbers = [word for word in written(figure) if word.isdigit()]
    assert len(numbers) == 4 * 8 + 4, "and four experts"
    assert "expert 0: 3, expert 1: 2, expert 2: 3, expert 3: 0" in figure.alt


def test_a_result_returns_to_the_place_of_its_token() -> None:
    """For each line of the dispatch the combine has its mirror image."""
    (ax,) = plots.expert_layer(CHOICES).axes
    lines = [(line.get_xdata(), line.get_ydata()) for line in ax.lines]
    long = [(x, tuple(y)) for x, y in lines if abs(x[1] - x[0]) > 1]
    there = [y for x, y in long if x[0] < 2]
    back = [y[::-1] for x, y in long if x[0] > 2]
    assert len(there) == 8 and sorted(there) == sorted(back)


@pytest.mark.parametrize(
    "choices, complaint", [([[1]], "of 1; one is on a rank"), ([[0] * 41], "41 tokens")]
)
def test_experts_that_cannot_be_drawn(choices: list, complaint: str) -> None:
    """An expert that no rank has, and a crowd, are refused."""
    with pytest.raises(ValueError, match=complaint):
        plots.expert_layer(choices)


def test_arrivals_are_those_of_the_replay() -> None:
    """A block for each message, which ends when it is received, from its sender."""
    plan = plans.pairwise_all_to_all(4, 4)
    figure = plots.arrivals(plan.replay(fabrics.uniform(4, 0, 1)), until=4)
    assert_readable(figure)
    (ax,) = figure.axes
    blocks = {
        (round(bar.get_y() + 0.4), round(bar.get_x() + bar.get_width())): bar
        for bar in ax.patches
    }
    assert len(blocks) == 12
    for (receiver, end), bar in blocks.items():
        sender = (receiver - end) % 4
        assert bar.get_facecolor()[:3] == pytest.approx(_rgb(rank_color(sender)))


def test_a_line_parts_the_receivers_of_two_nodes() -> None:
    """There is a line for each border between nodes, and none if no nodes are named."""
    replayed = plans.pairwise_all_to_all(6, 6).replay(fabrics.uniform(6, 0, 1))
    for per_node, borders in ((None, []), (2, [1.5, 3.5]), (6, [])):
        (ax,) = plots.arrivals(replayed, until=6, per_node=per_node).axes
        assert [line.get_ydata()[0] for line in ax.lines] == borders


def test_routes_have_an_arrow_for_each_hop() -> None:
    """Hops between nodes are dashed, those inside are not, and all are in the words."""
    ways = {"direct": [(0, 7)], "in two": [(0, 4), (4, 7)]}
    figure = plots.routes(ways)
    assert_readable(figure)
    styles = [
        [p.get_linestyle() for p in ax.patches if isinstance(p, FancyArrowPatch)]
        for ax in figure.axes
    ]
    assert [len(of_way) for of_way in styles] == [1, 2]
    assert styles[1][0] == styles[0][0] != styles[1][1] == "-"
    assert "in two: 0 to 4, 4 to 7" in figure.alt
    three = plots.routes({"a ring": [(0, 2), (2, 1), (1, 3), (3, 5), (5, 6)]}, 3, 3)
    assert_readable(three)
    hops = [p for p in three.axes[0].patches if isinstance(p, FancyArrowPatch)]
    assert [p.get_linestyle() != "-" for p in hops] == [False, False, True, False, True]
    both = plots.routes({"there and back": [(0, 4), (4, 0), (0, 1), (1, 0)]})
    hops = [p for p in both.axes[0].patches if isinstance(p, FancyArrowPatch)]
    assert [p.get_linestyle() != "-" for p in hops] == [True, False, False]
    assert [p.get_arrowstyle().arrow for p in hops] == ["<|-|>", "-|>", "-|>"]
    with pytest.raises(ValueError, match="of 8"):
        plots.routes({"too far": [(0, 8)]})
    with pytest.raises(ValueError, match="0 ways; need 1 to 3"):
        plots.routes({})


def test_who_waits_for_nobody_stands_on_the_right_of_a_wait_for_graph() -> None:
    """Every arrow leads to the right, each wait has one, and a circle is drawn too."""
    waits = {0: [1], 2: [0, 1], 3: [0, 1]}
    figure = plots.waits_for(waits, caption="Waits.")
    assert_readable(figure)
    (ax,) = figure.axes
    x = {text.get_text(): text.get_position()[0] for text in ax.texts}
    assert x["1"] > x["0"] > x["2"] == x["3"]
    arrows = [p for p in ax.patches if isinstance(p, FancyArrowPatch)]
    assert len(arrows) == sum(map(len, waits.values()))
    assert "rank 2 waits for [0, 1]" in figure.alt
    beside = plots.waits_for({0: [1], 1: [0], 2: [0]}, caption="A circle and a rank.")
    assert_readable(beside)
    assert len({text.get_position() for text in beside.axes[0].texts}) == 3


def test_ranks_that_all_wait_stand_on_a_circle_in_the_order_of_their_waits() -> None:
    """Each arrow leads to the next place, so no two of them cross."""
    figure = plots.waits_for({0: [1], 1: [3], 2: [0], 3: [2]}, caption="A circle.")
    assert_readable(figure)
    texts = figure.axes[0].texts
    assert [text.get_text() for text in texts] == ["0", "1", "3", "2"]
    (x, y), *others = (text.get_position() for text in texts)
    assert [math.hypot(*place) for place in others] == pytest.approx([-x] * 3)
    assert y == 0 and others[0][1] == -others[2][1]


def test_moved_parts_say_what_leaves_each_gpu() -> None:
    """A part that moves has its GPU's colour, a row ends with what leaves in all."""
    steps = {"all": [[0, 1], [0, 1]], "one": [[None, None], [None, 0]]}
    figure = plots.moved_parts(steps)
    assert_readable(figure)
    faces = [[p.get_facecolor() for p in ax.patches] for ax in figure.axes]
    colors = [_rgb(rank_color(rank)) for rank in (0, 1)]
    assert [face[:3] for face in faces[0]] == [pytest.approx(c) for c in colors] * 2
    assert [face[3] for face in faces[1]] == [0, 0, 0, 1]
    assert "all: S from GPU 0, S from GPU 1; one: 0 from GPU 0, S/2" in figure.alt
    three = plots.moved_parts({"most": [[None, 0, 0, 0]] * 4})
    assert "3S/4 from GPU 3" in three.alt
    assert figure.narrow is three.narrow is None, "both fit a phone"
    wide = plots.moved_parts({name: [[0] * 4] * 4 for name in ("1.", "2.", "3.")})
    assert_readable(wide.narrow)
    assert wide.narrow.get_figwidth() <= 3.6 < wide.get_figwidth()
    with pytest.raises(ValueError, match=r"all: rows of \{1\} parts; need 2"):
        plots.moved_parts({"all": [[0], [0]]})
    with pytest.raises(ValueError, match="0 steps; need 1 to 4"):
        plots.moved_parts({})


def test_capacity_bars_sum_up() -> None:
    """Kept and dropped tokens are those wanted; kept and empty places the room."""
    figure = capacity_bars([4.0, 0.5], 1.0)
    assert_readable(figure)
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths == [1, 0.5, 3, 0, 0, 0.5], "kept, dropped, empty"
    assert len(capacity_bars([4.0, 0.5], None).axes[0].patches) == 4, "no empty places"


SPANS = {
    "Python": [plots.Span(0, 1, "send"), plots.Span(1, 4, "wait()", waits=True)],
    "NCCL": [plots.Span(2, 4, "transfer")],
}


def test_a_timetable_has_a_lane_a_name_and_hatches_who_waits() -> None:
    """Each span is in its place and its lane's colour; no word is on another."""
    arrow = plots.Arrow("Python", 1, "NCCL", 2)
    figure = plots.timetable(SPANS, "Who waits.", arrows=[arrow], ranks=[3, 5])
    assert_readable(figure)
    (ax,) = figure.axes
    boxes = [patch for patch in ax.patches if type(patch) is Rectangle]
    places = {(box.get_x(), box.get_width()) for box in boxes if not box.get_hatch()}
    assert places == {(0, 1), (1, 3), (2, 2)}
    (hatched,) = [box for box in boxes if box.get_hatch()]
    assert hatched.get_x() == 1
    assert boxes[-1].get_edgecolor()[:3] == pytest.approx(_rgb(rank_color(5)))
    (drawn,) = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    leaves, down = drawn.get_path().vertices[0]
    assert leaves == pytest.approx(1, abs=0.1) and 0 < down < 0.5, "from its lane"
    assert figure.alt == "Who waits. Python: send, wait() (waits). NCCL: transfer."


def test_a_span_of_a_timetable_needs_no_name() -> None:
    """It has no pill, and the words say that it waits."""
    spans = [plots.Span(0, 1, "1"), plots.Span(2, 3, "2"), plots.Span(1, 2, "", True)]
    figure = plots.timetable({"rank 0": spans}, "Waits.")
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2"]
    assert figure.alt == "Waits. rank 0: 1, (waits), 2." and not figure.narrow


def test_a_timetable_can_fit_a_phone() -> None:
    """It has the same spans, lines and axis there, and shrinks no letter."""
    more = {"fits_phone": True, "xticks": [0, 1, 4], "upright": [2]}
    figure = plots.timetable(SPANS, "Who waits.", ranks=[3, 5], **more)
    wide, narrow = figure.axes[0], figure.narrow.axes[0]
    assert_readable(figure.narrow)
    assert figure.narrow.get_figwidth() == plots.figure.PHONE < figure.get_figwidth()
    assert len(narrow.patches) == len(wide.patches) > 3
    assert narrow.patches[-1].get_edgecolor() == wide.patches[-1].get_edgecolor()
    assert [*narrow.get_xticks()] == [0, 1, 4]
    assert [line.get_xdata()[0] for line in (*narrow.lines, *wide.lines)] == [2, 2]


def test_a_rank_of_a_timetable_that_computes_is_grey() -> None:
    """Computing has one colour in all figures of a step, and the words say it."""
    spans = [plots.Span(0, 1, "", computes=True), plots.Span(1, 2, "sends")]
    figure = plots.timetable({"rank 0": spans}, "A step.")
    faces = [patch.get_facecolor()[:3] for patch in figure.axes[0].patches]
    assert faces == [
        pytest.approx(_rgb(color)) for color in (plots.figure.INK, rank_color(0))
    ]
    assert figure.alt == "A step. rank 0: (computes), sends."


def test_the_name_of_a_short_span_may_stand_behind_it() -> None:
    """So it hides neither the span nor the rest of the lane."""
    spans = [plots.Span(0, 40, "40"), plots.Span(40, 41, "1", True, beside=True)]
    figure = plots.timetable({"rank 0": spans}, "Waits.", xlim=(0, 50))
    assert_readable(figure)
    (ax,) = figure.axes
    (name,) = [text for text in ax.texts if text.get_text() == "1"]
    begin = ax.transData.inverted().transform(name.get_window_extent())[0, 0]
    assert begin > 41


def test_a_span_of_a_timetable_can_have_the_colour_of_another_rank() -> None:
    """So the eye follows what goes from lane to lane, and waiting is grey there."""
    spans = [plots.Span(0, 1, "own"), plots.Span(1, 2, "another's", rank=3)]
    figure = plots.timetable({"rank 0": [*spans, plots.Span(2, 3, "", True)]}, "")
    *drawn, hatched = [patch.get_edgecolor()[:3] for patch in figure.axes[0].patches]
    assert drawn[:2] == [pytest.approx(_rgb(rank_color(rank))) for rank in (0, 3)]
    assert hatched == pytest.approx(_rgb(plots.figure.INK))


@pytest.mark.parametrize(
    "lanes, arrows, complaint",
    [
        ({"a": [plots.Span(2, 1, "x")]}, [], "ends before it begins"),
        (SPANS, [plots.Arrow("Python", 0, "GPU", 1)], "needs lanes {'GPU'}"),
    ],
)
def test_what_is_no_timetable_is_refused(
    lanes: dict, arrows: list, complaint: str
) -> None:
    """A mistake in a lane or an arrow is named."""
    with pytest.raises(ValueError, match=complaint):
        plots.timetable(lanes, "", arrows=arrows)


def test_bytes_have_their_units_on_a_logarithmic_axis() -> None:
    """Powers of two and not of ten, and no label on another one."""
    sizes = [2.0**n for n in range(3, 31)]
    figure = plots.lines(
        {"LL": (sizes, [*range(28)])}, "", xscale="log", xlabel="bytes"
    )
    assert_readable(figure)
    assert {"1 KiB", "1 MiB", "1 GiB"} <= {*written(figure)}


def test_a_mesh_has_a_line_for_each_group() -> None:
    """Every group is a line through its ranks, and is named in the words."""
    figure = plots.mesh({"pipeline": 2, "data": 2, "tensor": 2}, "Eight ranks.")
    (ax,) = figure.axes
    assert len(ax.lines) == 12, "four pairs along each of three dimensions"
    assert sorted(int(word) for word in written(figure) if word.isdigit()) == [
        *range(8)
    ]
    assert "groups along data: [[0, 2], [1, 3], [4, 6], [5, 7]]" in figure.alt
    assert "groups along tensor: [[0, 1], [2, 3], [4, 5], [6, 7]]" in figure.alt
    assert_readable(figure)


NESTED = {
    "boxes": ("pipeline", "stage"),
    "links": {"data": "network", "pipeline": "network", "tensor": "NVLink"},
    "caption": "A large mesh.",
}


def test_boxes_in_boxes_name_each_dimension_and_its_link() -> None:
    """Lines along a dimension join drawn neighbours; dots lead to the last box."""
    figure = plots.nested({"data": 128, "pipeline": 16, "tensor": 8}, **NESTED)
    (ax,) = figure.axes
    colors = series_colors(["data", "pipeline", "tensor"])
    styles = [(line.get_color(), line.get_linestyle()) for line in ax.lines]
    for name in "data", "pipeline":
        ends = [styles.count((colors[name], look)) for look in "-:"]
        assert ends == [3, 3], "three rows of three boxes"
    frames = [patch.get_edgecolor()[:3] for patch in ax.patches]
    of_rows, of_boxes = (tuple(_rgb(colors[name])) for name in ("pipeline", "tensor"))
    assert [frames.count(of_rows), frames.count(of_boxes)] == [3, 9]
    assert len(ax.patches) == 3 + 9 + 9 * 8
    named = {"pipeline 127", "stage 15", "tensor, 8 ranks: NVLink"}
    assert named <= {*written(figure)} and "data, 128 ranks: network" in figure.alt
    assert figure.get_figwidth() <= PHONE
    assert_readable(figure)


def test_few_boxes_are_all_drawn() -> None:
    """Nothing is left out of a small mesh, so no line is dotted."""
    figure = plots.nested({"data": 2, "pipeline": 3, "tensor": 4}, **NESTED)
    (ax,) = figure.axes
    assert {line.get_linestyle() for line in ax.lines} == {"-"}
    assert len(ax.lines) == 2 * 2 + 3 and len(ax.patches) == 2 + 6 + 6 * 4
    assert_readable(figure)


@pytest.mark.parametrize("last", [{}, {"tensor": 16}])
def test_boxes_without_room_are_refused(last: dict[str, int]) -> None:
    """Two dimensions need no boxes in boxes, and a box has room for eight GPUs."""
    with pytest.raises(ValueError, match="at most 8 GPUs"):
        plots.nested({"data": 2, "pipeline": 2, **last}, **NESTED)


def test_each_node_of_hybrid_sharding_has_all_parts() -> None:
    """A rank fills its share of each kind; a line joins those that keep the same."""
    sizes = {"parameters": 4, "gradients": 4, "state": 8}
    figure = plots.hybrid_shards(sizes, nodes=2, per_node=2, caption="Two nodes.")
    (ax,) = figure.axes
    *parts, one, other = ax.patches
    filled = [part.get_bbox() for part in parts if part.get_facecolor()[3]]
    for node in one.get_bbox(), other.get_bbox():
        inside = [box.width for box in filled if node.contains(*box.min)]
        assert sum(inside) == 4 + 4 + 8 and len(inside) == 2 * 3
    looks = [(line.get_color(), len({*line.get_ydata()})) for line in ax.lines]
    assert looks == [(plots.rank_color(0), 2), (plots.rank_color(1), 2)]
    assert_readable(figure)


def test_a_small_mesh_has_room_for_its_key() -> None:
    """Two short dimensions are narrower than their names, and yet keep their size."""
    figure = plots.mesh({"replicate": 2, "shard": 2}, "Four ranks.")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    ends = [ax.transData.transform(line.get_xydata()) for line in ax.lines]
    longest = max(np.linalg.norm(begin - end) for begin, end in ends)
    assert longest > 0.8 * figure.dpi, "about an inch, as in a large mesh"
    assert_readable(figure)


@pytest.mark.parametrize("degrees", [{}, dict.fromkeys("abcd", 2), {"data": 64}])
def test_a_mesh_without_room_is_refused(degrees: dict[str, int]) -> None:
    """Four dimensions and 64 ranks make no picture that one can read."""
    with pytest.raises(ValueError, match="at most 32 ranks"):
        plots.mesh(degrees, "Too many.")


def test_a_bar_that_is_too_long_is_cut() -> None:
    """It ends with the axis, and its sum is still written."""
    bars = {"short": {"a": 10.0, "b": 20.0}, "long": {"a": 90.0, "b": 1400.0}}
    figure = plots.memory(bars, caption="Two bars.", xlabel="GB", most=100)
    (ax,) = figure.axes
    assert ax.get_xlim() == (0, 100)
    assert {"30", "1,490 →"} <= {*written(figure)}
    assert_readable(figure)


def test_the_most_between_two_marks_is_drawn_between_them() -> None:
    """In its middle, and only where it is above both; levels stand at their bytes."""
    marks = [(0.0, 1e9, 5e9), (0.2, 3e9, 3e9), (0.4, 2e9, 4e9)]
    steps = {"one": marks, "other": [(0.0, 1e9, 0), (0.6, 1e9, 1e9)]}
    levels = {"one": 4.2e9, "kept": 1e9}
    figure = plots.allocated(steps, levels, caption="Two steps.")
    for drawn in (figure, figure.narrow):
        (ax,) = drawn.axes
        one, other, *across = ax.lines
        x, y = one.get_data()
        assert [*x] == pytest.approx([0, 200, 300, 400])
        assert [*y] == pytest.approx([1, 3, 4, 2])
        assert [*other.get_ydata()] == [1, 1]
        assert [line.get_ydata()[0] for line in across] == pytest.approx([4.2, 1])
        assert [line.get_color() for line in across] == [one.get_color(), INK]
        assert {"predicted\n4.2 GB", "kept\n1.0 GB"} <= {*written(drawn)}
        assert_readable(drawn)
    assert "one: at most 5.0 GB, 400 ms" not in figure.alt
    assert "one: at most 4.0 GB, 400 ms" in figure.alt


def test_a_gap_is_written_behind_its_row() -> None:
    """It is the bound over what was published, also where the bound is lower."""
    rows = {"one\nDP 2": (40.0, 60.0, 42.0), "other": (41.0, 40.0, 25.0)}
    figure = plots.gaps(rows, caption="Two runs.", xlabel="MFU, %")
    for drawn in (figure, figure.narrow):
        assert {"1.50", "0.98"} <= {*written(drawn)}
        assert_readable(drawn)
    assert "one, DP 2: 40, bound 60, forecast 42" in figure.alt


def test_a_kind_keeps_its_colour_in_several_pictures() -> None:
    """Among the names of all pictures it has one place, and so one colour."""
    looks = ("a", "b", "tensor")
    bars = plots.memory({"x": {"tensor": 1}}, caption="", xlabel="s", looks=looks)
    lines = plots.mesh({"tensor": 2}, "Two ranks.", looks=looks)
    color = series_colors(looks)["tensor"]
    for drawn in (bars, bars.narrow):
        bar = drawn.axes[0].patches[0]
        assert bar.get_facecolor()[:3] == pytest.approx(_rgb(color))
    assert lines.axes[0].lines[0].get_color() == color


# -- servers, rails, groups ------------------------------------------------------------

TOPOLOGIES = (
    "dgx_a100_topo.txt",
    "h100_topo.txt",
    "rtx4090_topo.txt",
    "four_a100_nccl.xml",
)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_server_can_be_read(name: str) -> None:
    """No word covers another one, and every GPU and NUMA node is named."""
    machine = fabrics.read_server(shipped(name))
    figure = plots.server(machine, caption="A server.")
    assert_readable(figure)
    assert_readable(figure.narrow)
    assert figure.narrow.get_figwidth() <= PHONE
    words = written(figure)
    assert {f"NUMA {n}" for n in machine.numa} <= {*words}
    assert all(str(gpu) in words for gpu in range(len(machine.numa)))


def test_a_server_has_a_bar_for_gpus_that_share_their_cards() -> None:
    """Pairs of GPUs of a DGX A100 are near two cards, those of an H100 near one."""
    counts = {}
    for name in TOPOLOGIES[:3]:
        figure = plots.server(fabrics.read_server(shipped(name)), caption="")
        counts[name] = [written(figure).count(way) for way in ("PXB", "PIX", "PHB")]
    assert [*counts.values()] == [[4, 0, 0], [0, 8, 0], [0, 0, 1]]
    assert "GPU 5 of NUMA node 1: cards [0, 1] by SYS" in figure.alt
    lines = figure.axes[0].lines
    assert sum(line.get_linestyle() == ":" for line in lines) == 7, "far from cards"


def test_a_way_to_a_far_card_can_be_followed() -> None:
    """Each bar of PCIe has a line to its NUMA node; cards have their own numbers."""
    figure = plots.server(fabrics.read_server(shipped(TOPOLOGIES[0])), caption="")
    (ax,) = figure.axes
    ends = [tuple(line.get_ydata()) for line in ax.lines]
    lowest = max(ends, key=max)[0] - 0.22  # the top of the NUMA nodes
    assert sum(low == pytest.approx(lowest) for _, low in ends) == 4
    squares = sorted(
        int(text.get_text())
        for text in ax.texts
        if text.get_text().isdigit() and text.get_weight() != "bold"
    )
    assert squares == [0, 1, 2, 3, 6, 7, 8, 9] and "cards [8, 9] by PXB" in figure.alt


def test_messages_of_one_rail_pass_one_switch() -> None:
    """Only a way that changes the rail above the leaves touches the spine."""
    ways = {"same": [1, 5], "across": [0, 7], "PXN": [4, 6, 10]}
    figure = plots.rails(ways, caption="Rails.")
    assert_readable(figure)
    assert_readable(figure.narrow)
    assert figure.narrow.get_figwidth() <= PHONE
    assert plots.rails(ways, nodes=4, caption="").narrow is None, "too wide"
    (ax,) = figure.axes
    drawn = [line for line in ax.lines if line.get_linewidth() == pytest.approx(2.6)]
    highest = [min(line.get_ydata()) for line in drawn]
    assert highest[1] < highest[0] == highest[2], "the second one goes to the spine"
    assert max(drawn[2].get_ydata()) > max(drawn[0].get_ydata()), "PXN goes by NVLink"
    with pytest.raises(ValueError, match="need two ranks or more"):
        plots.rails({"nowhere": [1, 12]}, caption="")


def test_the_members_of_a_group_are_filled() -> None:
    """They are where their ranks are, and nodes that are left out are counted."""
    dealt = [rank for node in range(4) for rank in range(node, 32, 4)]
    figure = plots.group(range(4), dealt, caption="Dealt out.")
    assert_readable(figure)
    filled = _rgb(rank_color(0))
    boxes = [p for p in figure.axes[0].patches if type(p) is Rectangle]
    rows = {
        round(p.get_y(), 2)
        for p in boxes
        if p.get_facecolor()[:3] == pytest.approx(filled)
    }
    assert len(rows) == 4 and "4 ranks on 4 of 4 nodes" in figure.alt
    many = plots.group([0], range(8 * 20), caption="")
    assert "and 4 nodes more" in written(many)
    with pytest.raises(ValueError, match="need a multiple of 8"):
        plots.group([0], range(12), caption="")


def test_a_group_has_its_gpus_inside_of_frames() -> None:
    """A group that begins in one frame ends in the next; a single frame is alone."""
    split, alone = [[0] * 6 + [1] * 3, [1] * 3 + [None] * 6], [[0] * 8 + [None]]
    figure = plots.domains({"two": split, "one": alone}, per_row=3, caption="Racks.")
    assert_readable(figure)
    for ax, frames in zip(figure.axes, (split, alone), strict=True):
        boxes = [p for p in ax.patches if type(p) is Rectangle]
        large = [p for p in boxes if p.get_width() > 0.4]
        for box, frame in zip(large, frames, strict=True):
            inside = [
                p
                for p in boxes
                if p.get_width() < 0.15
                and box.get_y() < p.get_y() < box.get_y() + box.get_height()
            ]
            fills = [p.get_facecolor()[:3] for p in inside if p.get_facecolor()[3]]
            wanted = [_rgb(rank_color(g)) for g in frame if g is not None]
            assert fills == [pytest.approx(color) for color in wanted]
            assert len(inside) == len(frame) == 9
    two, one = figure.axes
    assert len(two.lines) == 2 and not one.lines, "to the network"
    assert "6 of group 0 and 3 of group 1; 3 of group 1" in figure.alt
    for empty in ([], [[0], []]):
        with pytest.raises(ValueError, match="'none' has a frame without GPUs"):
            plots.domains({"none": empty}, caption="")


def test_a_way_may_have_its_ranks_at_other_places() -> None:
    """Rank 1 at place 4 is on the other node, so the hop from rank 0 is straight."""
    ways = {"near": [(0, 1)], "far": [(0, 1)]}
    figure = plots.routes(ways, rank_at={"far": [0, 2, 4, 6, 1, 3, 5, 7]})
    near, far = (
        next(p for p in ax.patches if isinstance(p, FancyArrowPatch))
        for ax in figure.axes
    )
    assert near.get_linestyle() == "-" != far.get_linestyle()


def test_four_nodes_fit_a_phone_and_no_line_hides_a_rank() -> None:
    """The ranks lie above the lines between nodes, which pass some of them."""
    ring = [(rank, (rank + 1) % 16) for rank in range(16)]
    figure = plots.routes({"ring": ring}, nodes=4)
    for drawn in (figure, figure.narrow):
        assert_readable(drawn)
        (ax,) = drawn.axes
        arrows = [p for p in ax.patches if isinstance(p, FancyArrowPatch)]
        between = [arrow for arrow in arrows if arrow.get_linestyle() != "-"]
        assert len(between) == 4 and len(arrows) == 16
        squares = min(square.get_zorder() for square in ax.collections)
        assert max(arrow.get_zorder() for arrow in between) < squares
    assert figure.narrow.get_figwidth() == PHONE < figure.get_figwidth()
    assert plots.routes({"ring": ring}, per_node=8).narrow is None, "fits as it is"


def test_who_decides_is_filled() -> None:
    """Arrows join the boxes of a row, and a decider has one colour in all rows."""
    heads, rows = ("verbs", "way"), {"A": ("kept", "table"), "B": ("table", "wire")}
    figure = plots.decisions(heads, rows, deciders=["table"], caption="Who decides.")
    assert_readable(figure)
    (ax,) = figure.axes
    boxes = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    filled = [(box.get_x() > 1.5, box.get_y() > 0.5) for box in boxes if box.get_fill()
              and box.get_facecolor()[3]]  # fmt: skip
    assert filled == [(True, False), (False, True)], "the two tables"
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == 2 and "A: kept, then table" in figure.alt
    with pytest.raises(ValueError, match="B: 1 words; need 2"):
        plots.decisions(heads, {"B": ["wire"]}, deciders=[], caption="")


def test_each_question_leads_to_its_answer() -> None:
    """A yes leads to the right, a no to the next question and at last to the rest."""
    rows = {"Is one dead?": "that rank", "Is one behind?": "that one,\ntoo"}
    figure = plots.questions(rows, "a link", caption="In order.")
    assert_readable(figure)
    (ax,) = figure.axes
    places = {text.get_text(): text.get_position() for text in ax.texts}
    for row, (question, answer) in enumerate(rows.items()):
        assert (places[question], places[answer]) == ((0, row), (1, row))
    assert places["a link"] == (0, 2)
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    leads = [(b[1] == a[1], b[0] == a[0]) for a, b in (p._posA_posB for p in arrows)]
    assert leads == 2 * [(True, False), (False, True)], "yes and no"
    assert written(figure).count("yes") == 2 == written(figure).count("no")
    assert "Is one behind? Yes: that one, too. Otherwise: a link." in figure.alt


def test_the_parts_of_a_step_follow_each_other() -> None:
    """In milliseconds, computing first; the whole stands at the end of its bar."""
    figure = plots.step_parts({"plain": [0.08, 0, 0.6], "packed": [0.08, 0.01, 0.1]})
    assert_readable(figure)
    bars = [bar for bar in figure.axes[0].patches if isinstance(bar, Rectangle)]
    assert [bar.get_width() for bar in bars] == pytest.approx([80, 80, 0, 10, 600, 100])
    assert bars[-1].get_x() == pytest.approx(90)
    assert "680" in written(figure) and "packed 190 ms" in figure.alt
    slow = plots.step_parts({"plain": [2.0, 0, 0.796]})
    assert "plain 2796 ms" in slow.alt, "as it stands at the bar"
    with pytest.raises(ValueError, match="plain has 2 parts; need 3: computing"):
        plots.step_parts({"plain": [1, 2]})


def test_a_step_can_have_other_parts() -> None:
    """The key names them, in the colours that they have elsewhere."""
    halves = "computing", "all-reduce"
    figure = plots.step_parts({"few": [0.7, 0.1], "many": [0.2, 0.1]}, parts=halves)
    assert_readable(figure)
    bars = [bar for bar in figure.axes[0].patches if isinstance(bar, Rectangle)]
    assert [bar.get_width() for bar in bars] == pytest.approx([700, 200, 100, 100])
    assert {*halves} <= {*written(figure)} and "packing" not in written(figure)
    with pytest.raises(ValueError, match="few has 3 parts; need 2: computing, all"):
        plots.step_parts({"few": [1, 2, 3]}, parts=halves)


def test_steps_in_groups_stand_below_the_name_of_their_group() -> None:
    """A bar is as long as its terms, which stand behind it; on a phone, too."""
    halves = "computing", "all-reduce"
    groups = {"fast": {"16": [0.7, 0.1]}, "slow": {"16": [0.7, 2.1], "64": [0.2, 2.2]}}
    figure = plots.step_groups(groups, parts=halves, caption="Groups.")
    for drawn in (figure, figure.narrow):
        assert_readable(drawn)
        words = [text.get_text() for text in drawn.axes[0].texts]
        assert words == [
            *("fast", "700 + 100 = 800"),
            *("slow", "700 + 2100 = 2800", "200 + 2200 = 2400"),
        ]
        heights = [text.xy[1] for text in drawn.axes[0].texts]
        assert heights == sorted(heights), "a name is above its bars"
        bars = [bar for bar in drawn.axes[0].patches if isinstance(bar, Rectangle)]
        ends = [bar.get_x() + bar.get_width() for bar in bars]
        assert ends == pytest.approx([700, 800, 700, 2800, 200, 2400])
    assert "slow, 16: 700 + 2100 = 2800 ms" in figure.alt
    with pytest.raises(ValueError, match="16 has 1 parts; need 2"):
        plots.step_groups({"one": {"16": [1]}}, parts=halves, caption="")


def test_one_all_reduce_of_a_step_is_of_all_ranks() -> None:
    """It begins after every backward pass and ends before every update."""
    figure = plots.data_parallel_step(3, caption="A step.")
    assert_readable(figure)
    boxes = [p for p in figure.axes[0].patches if type(p) is Rectangle]
    (across,) = [box for box in boxes if box.get_height() > 1]
    assert across.get_y() < 0 and across.get_y() + across.get_height() > 2
    for rank in range(3):
        tokens, forward, backward, update = sorted(
            (b for b in boxes if abs(b.get_y() + b.get_height() / 2 - rank) < 0.1
             and b is not across), key=Rectangle.get_x)  # fmt: skip
        assert _rgb(rank_color(rank)) == pytest.approx(tokens.get_facecolor()[:3])
        assert backward.get_width() == 2 * forward.get_width(), "4 operations, and 2"
        assert backward.get_x() + backward.get_width() < across.get_x()
        assert across.get_x() + across.get_width() < update.get_x()


@pytest.mark.parametrize(
    ("sums_first", "shares"), [(False, ["1.88", "1.97"]), (True, ["1", "1.75"])]
)
def test_a_link_of_cards_is_as_wide_as_what_passes_it(
    sums_first: bool, shares: list[str]
) -> None:
    """Servers that sum first are a ring of servers, else all GPUs are one."""
    figure = plots.through_cards([2, 8], sums_first=sums_first, caption="Cards.")
    assert_readable(figure)
    (ax,) = figure.axes
    said = [text.get_text() for text in ax.texts if text.get_text()]
    assert [words.split()[2] for words in said] == shares
    arrows = [text for text in ax.texts if isinstance(text, Annotation)]
    links = [text.arrow_patch.get_linewidth() for text in arrows]
    few, many = (1.8 * float(share) for share in shares)
    assert links == pytest.approx([few] * 2 + [many] * 8, abs=0.01), "closed rings"


def test_every_seed_has_a_dot_and_every_row_a_mean() -> None:
    """The marks stand where they should, above all rows."""
    rows = {"one": [0.1, 0.3], "another": [0.5]}
    figure = plots.by_seed(rows, "Two ways.", marks={"silent": 0.6}, xlabel="loss")
    assert_readable(figure)
    (ax,) = figure.axes
    drawn = [line.get_xydata().tolist() for line in ax.lines]
    assert drawn[0] == [[0.6, 0], [0.6, 1]] and drawn[2] == [[0.1, 0], [0.3, 0]]
    assert [x for x, _ in drawn[1]] == pytest.approx([0.2, 0.2]), "below the dots"
    assert "one 0.2 (0.1 to 0.3)" in figure.alt and "silent" in written(figure)
    with pytest.raises(ValueError, match="none has no results"):
        plots.by_seed({"none": []}, "")
    figure = plots.by_seed(
        rows, "Two.", marks={"silent": 9}, near=(0, 1), xlabel="nats"
    )
    assert_readable(figure)
    close, whole = figure.axes
    assert "enlarged" in written(figure)
    middle = (close.get_position().x0 + whole.get_position().x1) / 2
    (label,) = figure.texts
    assert label.get_position()[0] == pytest.approx(middle, abs=0.01)
    assert close.get_xlim() == (0, 1) and whole.get_xlim()[1] > 9
    assert len(close.lines) == 2 * len(rows) and "nats" in written(figure)
    assert not close.texts, "no row lies beyond the range"
    (beyond,) = plots.by_seed(rows, "Two.", near=(0, 0.4)).axes[0].texts
    assert beyond.get_text() == "→" and beyond.get_position()[1] == 1


def test_error_feedback_goes_round_in_a_loop() -> None:
    """What is wanted goes to the message and to the difference, which comes back."""
    figure = plots.feedback_loop("1024 bits", "4 bytes", caption="The loop.")
    assert_readable(figure)
    assert {"1024 bits", "4 bytes", "pack", "unpack", "left out"} <= {*written(figure)}
    assert "owner" in written(figure) and "−" in written(figure)
    (ax,) = figure.axes
    arrows = [text for text in ax.texts if isinstance(text, Annotation)]
    ends = [(arrow.xyann, arrow.xy) for arrow in arrows]
    plus, minus = (
        line.get_xydata()[0] for line in ax.lines if line.get_marker() == "o"
    )
    up = [(src, dst) for src, dst in ends if src[1] > dst[1]]
    assert [dst[0] for _, dst in up] == [plus[0]] and up[0][1][1] > plus[1], "back"
    down = [src[0] for src, dst in ends if src[1] < dst[1]]
    assert min(down) == minus[0] > plus[0], "what is wanted, after the addition"


def test_dots_that_can_be_counted_do_not_cover_each_other() -> None:
    """Seeds with nearly the same result stand apart in their row, without a mean."""
    rows = {"fails": [0.0, 9.0, 9.1, 9.05], "learns": [9.0]}
    figure = plots.by_seed(rows, "Seeds.", marks={"limit": 3}, is_counted=True)
    assert_readable(figure)
    mark, *dots = (line.get_xydata() for line in figure.axes[0].lines)
    assert len(dots) == len(rows) and mark[0][0] == 3
    assert dots[0][:, 0].tolist() == [0, 9, 9.05, 9.1]
    alone, *heap = dots[0][:, 1]
    assert alone == 0 and np.mean(heap) == pytest.approx(0)
    assert np.diff(heap) == pytest.approx([0.17, 0.17]) and max(heap) < 0.5
    crowd = plots.by_seed({"learns": [9.0] * 10, "fails": [0.0]}, "", is_counted=True)
    heap = crowd.axes[0].lines[0].get_xydata()[:, 1]
    assert max(abs(heap)) < 0.5, "ten stay in their row, which is higher"
    assert crowd.get_figheight() > figure.get_figheight()


def test_every_way_has_its_time_and_the_range_of_its_seeds() -> None:
    """A dot at the mean, over a line from the lowest seed to the highest."""
    ways = {"one": (8.0, [0.1, 0.3, 0.5]), "another": (50.0, [0.0, 0.0])}
    figure = plots.loss_by_time(ways, "Two ways.", marks={"alone": 6.5}, ylabel="loss")
    assert_readable(figure)
    mark, spread, dot, *_ = (line.get_xydata() for line in figure.axes[0].lines)
    assert mark[0][0] == 6.5 and spread.tolist() == [[8, 0.1], [8, 0.5]]
    assert dot == pytest.approx(np.array([[8, 0.3]]))
    assert {"one", "another", "alone"} <= {*written(figure)}
    assert "another 50 and 0" in figure.alt


def test_paths_leave_the_points_agreed_on() -> None:
    """Distances in the plane are those of weights that lie in it."""
    agreed = np.array([[0.0, 0, 0], [4, 0, 0], [7, 1, 0]])
    weights = agreed[:2, None, None] + [[[1.0, 1, 0], [2, 2, 0]], [[1, -1, 0]] * 2]
    figure = plots.paths(weights, agreed, "Apart.")
    for drawn in (figure, figure.narrow):
        assert_readable(drawn)
    *ways, means, met = (line.get_xydata() for line in figure.axes[0].lines)
    assert len(ways) == 2 * 2 and len(met) == 3
    assert np.allclose(means[0], (ways[0][-1] + ways[2][-1]) / 2)
    assert np.linalg.norm(met[1] - met[0]) == pytest.approx(4)
    assert np.allclose(ways[1][0], met[1]) and len(ways[0]) == 3
    assert np.linalg.norm(ways[0][2] - met[0]) == pytest.approx(8**0.5)
    with pytest.raises(ValueError, match=r"shape \(2, 3\); need \(3, 3\)"):
        plots.paths(weights, agreed[:2], "")


def test_side_by_side_a_step_takes_its_longer_half() -> None:
    """In turn it takes both halves; the second step begins where the first one ends."""
    figure = plots.serial_and_overlapped([0.5, 2], caption="Two orders.")
    assert_readable(figure)
    bars = [bar for bar in figure.axes[0].patches if isinstance(bar, Rectangle)]
    begins: dict[float, list[float]] = {}
    for bar in bars:
        begins.setdefault(round(bar.get_y(), 2), []).append(bar.get_x())
    in_turn, computing, summing = ([*begins.values()][n] for n in (0, 1, 2))
    assert sorted(in_turn) == [0, 1, 1.5, 2.5] and computing == summing == [0, 1]
    assert [*begins.values()][4] == [0, 2], "the rank waits for the second all-reduce"
    assert "gamma 2: a step takes 3 in turn, 2 side by side" in figure.alt


def test_every_card_of_a_server_has_a_ring_through_all_gpus() -> None:
    """Ring n begins at GPU n, and no GPU is left out."""
    figure = plots.channels(4, caption="Four rings.")
    assert_readable(figure)
    squares = [t for t in figure.axes[0].texts if t.get_text().isdigit()]
    by_ring: dict[float, list[tuple[float, str]]] = {}
    for square in squares:
        x, ring = square.get_position()
        by_ring.setdefault(ring, []).append((x, square.get_text()))
    orders = ["".join(gpu for _, gpu in sorted(line)) for line in by_ring.values()]
    assert orders == ["0123", "1230", "2301", "3012"]
    assert {"in by card 3", "out by card 3"} <= {*written(figure)}


def test_a_stack_of_layers_says_what_each_pass_sends() -> None:
    """Shared layers have a box of each rank; arrows are bold where something moves."""
    layers = [
        plots.Layer("head", is_shared=True, forward="SUM"),
        plots.Layer("loss", is_shared=False, backward="Copy"),
        plots.Layer("end", is_shared=False),
    ]
    figure = plots.layer_stack(layers, ranks=3)
    assert_readable(figure)
    (ax,) = figure.axes
    faces = [patch.get_facecolor()[:3] for patch in ax.patches]
    for rank in range(3):
        assert faces.count(pytest.approx(_rgb(rank_color(rank)))) == 1
    assert len(faces) == 3 + 1 + 1
    bold = [a.arrow_patch.get_linewidth() > 1 for a in ax.texts if arrow_of(a)]
    assert bold == [True, False, False, True], "forward and backward, by gap"
    assert "head, in parts on 3 ranks; below it, forward: SUM, backward" in figure.alt
    with pytest.raises(ValueError, match="need two or more"):
        plots.layer_stack(layers[:1])


def arrow_of(text: object) -> object:
    return getattr(text, "arrow_patch", None)


def test_rows_become_columns_block_by_block() -> None:
    """On the right each column has a block of every rank; the diagonal stays."""
    figure = plots.rows_for_columns("tokens", "heads", ranks=3)
    assert_readable(figure)
    before, after = figure.axes
    labels = [
        [t.get_text() for t in ax.texts if t.get_text() != "→"]
        for ax in (before, after)
    ]
    assert labels == [[*"012012012"], [*"000111222"]], "goes to, and comes from"
    for ax in (before, after):
        faces = [patch.get_facecolor()[:3] for patch in ax.patches[:9]]
        rows = [_rgb(rank_color(n // 3)) for n in range(9)]
        assert faces == [pytest.approx(color) for color in rows]
    with pytest.raises(ValueError, match="9 ranks; need 2 to 8"):
        plots.rows_for_columns("tokens", "heads", ranks=9)


def test_the_causal_mask_shares_its_pairs_among_ranks() -> None:
    """The bars count each rank's cells; all orders have the same scale."""
    parts, zigzag = (plots.causal_work(order, 2, 8) for order in ORDERS)
    for figure, pairs in ((parts, [10, 26]), (zigzag, [18, 18])):
        assert_readable(figure)
        mask, bars = figure.axes
        faces = [patch.get_facecolor()[:3] for patch in mask.patches]
        for rank, number in enumerate(pairs):
            assert faces.count(pytest.approx(_rgb(rank_color(rank)))) == number
        assert [bar.get_width() for bar in bars.patches] == pairs
    assert parts.axes[1].get_xlim() == zigzag.axes[1].get_xlim()
    assert "rank 0: 0–1; rank 1: 2–3; rank 1: 4–5; rank 0: 6–7" in zigzag.alt
    with pytest.raises(ValueError, match="9 tokens in 4 pieces"):
        plots.causal_work(ORDERS[0], 2, 9)


def test_exponentials_shrink_to_the_largest_score_of_all() -> None:
    """A rank's bars are relative to its own score first, and then to the largest."""
    figure = plots.rescaled([[2, 1], [3]])
    assert_readable(figure)
    heights = [[bar.get_height() for bar in ax.patches] for ax in figure.axes]
    assert heights[0] == pytest.approx([1, math.exp(-1), 1])
    assert heights[1] == pytest.approx([math.exp(-1), math.exp(-2), 1])
    assert "rank 0: largest 2, total 1.37, scaled 0.50" in figure.alt
    with pytest.raises(ValueError, match="need one or more on every rank"):
        plots.rescaled([[1], []])
