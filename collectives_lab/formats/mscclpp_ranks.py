"""The ranks of an MSCCL++ plan: their buffers and channels, and who calls them what.

An operation names a channel by its number in the thread block, the thread block by its
number on the rank, and the rank by the rank at the other end; so it is with the buffers
of others. Here `RankOf` and `BlockOf` resolve these numbers.
"""

from __future__ import annotations

from collections.abc import Hashable

from collectives_lab.formats.json_files import Node
from collectives_lab.formats.thread_blocks import BUFFERS, Range


class RankOf:
    """A rank of a plan: its buffers, channels, and what it can reach of others.

    peers: by type of channel, the rank at the other end of each. switches: the buffer
    and the ranks of each switch channel. remote: the rank and buffer of each remote
    buffer. everyone: all ranks of the plan.
    """

    def __init__(self, gpu: Node, grain: int, world_size: int) -> None:
        self.gpu, self.grain, self.world_size = gpu, grain, world_size
        self.everyone: list[RankOf] = []
        self.rank = gpu["id"].number()
        names = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
        self.sizes = {b: gpu[name].number() * grain for b, name in names.items()}
        self.peers: dict[str, list[int]] = {"memory": [], "port": []}
        self.switches: list[tuple[str, list[int]]] = []
        for channel in gpu.items("channels", True):
            self._add_channel(channel)
        self.remote = [
            (self.rank_in(buffer["rank"]), self.buffer_in(buffer["type"]))
            for buffer in gpu.items("remote_buffers", True)
        ]

    def room(self, rank: int, buffer: str) -> int:
        """Return the pieces of a buffer; in place, input and output are one."""
        sizes = self.everyone[rank].sizes
        return sizes["s"] if buffer == "s" else max(sizes["i"], sizes["o"])

    def _add_channel(self, channel: Node) -> None:
        kind = channel["channel_type"].text()
        if kind == "switch":
            buffer = self.buffer_in(channel["buffer_type" if "buffer_type" in channel
                                            else "buff"])  # fmt: skip
            for group in channel.items("rank_groups"):
                ranks = [self.rank_in(rank) for rank in group.items("ranks")]
                self.switches.append((buffer, ranks))
        elif kind in self.peers:
            self.peers[kind] += [self.rank_in(p) for p in channel.items("connected_to")]
        else:
            raise ValueError(
                f"{channel['channel_type']} is {kind!r}; need memory, port or switch"
            )

    def rank_in(self, node: Node) -> int:
        """Return a rank of the plan."""
        return node.number(0, self.world_size - 1)

    @staticmethod
    def buffer_in(node: Node) -> str:
        """Return the letter of a buffer."""
        if node.text() not in BUFFERS:
            raise ValueError(f"{node} is {node.value!r}; need i, o or s")
        return node.text()

    def signal(self, kind: str, channel: int, is_wait: bool) -> Hashable:
        """Return the key of the signal that a channel sends, or waits for.

        The n-th channel from a rank to another belongs to the n-th one back.
        """
        peers = self.peers[kind]
        peer = peers[channel]
        number = peers[:channel].count(peer)
        ends = (peer, self.rank) if is_wait else (self.rank, peer)
        return (*ends, f"{kind} channel", number)


class BlockOf:
    """A thread block: the channels and remote buffers that its operations number."""

    def __init__(self, rank: RankOf, block: Node) -> None:
        self.rank = rank
        self.channels: dict[str, list[int]] = {"memory": [], "port": [], "switch": []}
        self.remote: dict[str, list[int]] = {"memory": [], "port": []}
        for channel in block.items("channels", True):
            ids = self._list(self.channels, channel["channel_type"])
            ids += [n.number() for n in channel.items("channel_ids")]
        for refs in block.items("remote_buffer_refs", True):
            ids = self._list(self.remote, refs["access_channel_type"])
            ids += [n.number() for n in refs.items("remote_buffer_ids")]

    @staticmethod
    def _list(lists: dict[str, list[int]], kind: Node) -> list[int]:
        if kind.text() not in lists:
            raise ValueError(f"{kind} is {kind.value!r}; need {' or '.join(lists)}")
        return lists[kind.text()]

    def keys(self, op: Node, is_wait: bool) -> list[Hashable]:
        """Return the keys of the signals of an operation."""
        kind = op["channel_type"].text()
        of_rank = self.rank.peers.get(kind, [])
        return [
            self.rank.signal(kind, self._pick(n, self.channels.get(kind, []), of_rank),
                             is_wait)
            for n in op.items("channel_ids")
        ]  # fmt: skip

    @staticmethod
    def _pick(node: Node, of_block: list[int], of_rank: list) -> int:
        """Return the number that a rank has for what a thread block calls so."""
        number = node.number()
        if number >= len(of_block) or of_block[number] >= len(of_rank):
            raise ValueError(
                f"{node} is {number}; the thread block has {len(of_block)} of these, "
                f"and the rank {len(of_rank)}"
            )
        return of_block[number]

    def ranges(self, op: Node, chunk: Node, packets: bool) -> list[Range]:
        """Return where a chunk lies: with a switch, on every rank of its group."""
        if "switch_channel_id" in chunk:
            node = chunk["switch_channel_id"]
            number = self._pick(node, self.channels["switch"], self.rank.switches)
            buffer, ranks = self.rank.switches[number]
        elif "buffer_id" in chunk:
            remote = self.remote.get(op["channel_type"].text(), [])
            number = self._pick(chunk["buffer_id"], remote, self.rank.remote)
            rank, buffer = self.rank.remote[number]
            ranks = [rank]
        else:
            buffer, ranks = self.rank.buffer_in(chunk["type"]), [self.rank.rank]
        start, count = self._span(op, chunk, buffer, ranks)
        return [Range(rank, buffer, start, count, packets) for rank in ranks]

    def _span(
        self, op: Node, chunk: Node, buffer: str, ranks: list[int]
    ) -> tuple[int, int]:
        """Return the first piece and the number of pieces of a chunk."""
        grain = self.rank.grain
        index, size = chunk["index"].number(), chunk["size"].number(1)
        first, pieces = index * grain, size * grain
        most = min(self.rank.room(rank, buffer) for rank in ranks)
        if first + pieces > most:
            raise ValueError(
                f"{chunk}: chunks {index} to {index + size - 1} of the "
                f"{BUFFERS[buffer]}; it has {most // grain}"
            )
        if "tbg_info" in op:
            of = op["tbg_info"]["tbg_size"].number(1)
            part = op["tbg_info"]["tb_id"].number(0, of - 1)
            first, pieces = first + part * pieces // of, pieces // of
        return first, pieces
