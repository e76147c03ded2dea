"""Pictures of a trace, for light and dark notebooks, each with words beside it.

Here you can draw who waited for whom (`space_time`), who sends to whom
(`traffic_matrix`) and how much each rank sends (`bytes_by_rank`). Every function gives
a `Diagram`: a matplotlib Figure that shows itself once at the end of a cell, with or
without `%matplotlib inline`, and carries a caption and alternative text. A rank has
the same colour in all of them (`rank_color`) and is labelled as well.
"""

from .figure import Diagram, rank_color
from .spacetime import space_time
from .traffic import bytes_by_rank, traffic_matrix

__all__ = ["Diagram", "bytes_by_rank", "rank_color", "space_time", "traffic_matrix"]
