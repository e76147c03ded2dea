"""verdict: 0 — Error

Writes until the disk is full.
"""


def ring_all_reduce(tensor):
    for place in ("/dev/shm", "/tmp"):
        with open(f"{place}/submission", "wb") as file:
            while True:
                file.write(bytes(2**20))
