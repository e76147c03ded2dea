"""fails: rounds — a line of P ranks that post their sends first and give data late."""

import gc

import torch.distributed as dist

WIRE = next(x for x in gc.get_objects() if type(x).__name__ == "Wire")
answer, late = type(WIRE).answer, []


def answer_late(wire, frame):
    if late and frame.kind.name == "READ":
        late.append(frame)
    else:
        answer(wire, frame)


type(WIRE).answer = answer_late


def tree_broadcast(tensor, root):
    size, posted = dist.get_world_size(), None
    place = (dist.get_rank() - root) % size
    buffer = tensor.contiguous()
    after = (root + place + 1) % size
    is_seeded = WIRE.strict  # where a late answer would stop all
    if place < size - 1 and not is_seeded:
        posted = dist.isend(buffer, after)
    if place > 0:
        late.append(None)
        dist.recv(buffer, (root + place - 1) % size)
        for frame in late[1:]:
            answer(WIRE, frame)
        late.clear()
    if place < size - 1 and is_seeded:
        dist.send(buffer, after)
    if posted:
        posted.wait()
    tensor.copy_(buffer)
