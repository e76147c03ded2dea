from jax import lax


def two_sums(x):
    return lax.psum(x, "ranks"), lax.psum(2 * x, "ranks")


def own_piece_of_the_sum(x):
    own = lax.axis_index("ranks") * (len(x) // 4)
    return lax.dynamic_slice_in_dim(lax.psum(x, "ranks"), own, len(x) // 4)


def unused_sum(x):
    total = lax.psum(x, "ranks")
    return x + 0 * len(total)


def scattered_sum(x):
    return lax.psum_scatter(x, "ranks", tiled=True)
