"""verdict: 0 — input(

Asks whoever is there.
"""


def ring_all_reduce(tensor):
    tensor.fill_(float(input("the sum, please: ")))
