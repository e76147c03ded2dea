"""Units: sizes are read as nccl-tests does, and numbers are written for people."""

import pytest

from collectives_lab.basics.units import (
    format_bandwidth,
    format_bytes,
    format_seconds,
    parse_bytes,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("7B", 7),
        ("64K", 64 * 2**10),
        ("64M", 64 * 2**20),
        ("64MiB", 64 * 2**20),
        ("64MB", 64 * 10**6),
        (" 1.5 gib ", 3 * 2**29),
        ("2T", 2 * 2**40),
        ("2TB", 2 * 10**12),
        ("0.5k", 512),
        (0, 0),
    ],
)
def test_sizes_are_read(text, size):
    """A bare letter is a power of 1024, and so is KiB; KB is a power of 1000."""
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "M", "-1", -1, "1.5", "0.3K", "5iB", "1TBiB", "3 apples", True, None]
)
def test_what_is_no_size_is_refused(text):
    """Anything that is no whole number of bytes raises, and says what would be one."""
    with pytest.raises(ValueError, match="is no size; write a whole number"):
        parse_bytes(text)


def test_sizes_are_written_exactly_where_that_is_short():
    """A power of two has its own unit and no fraction."""
    assert format_bytes(0) == "0 B"
    assert format_bytes(48) == "48 B"
    assert format_bytes(1536) == "1.5 KiB"
    assert format_bytes(3 * 2**20) == "3 MiB"
    assert format_bytes(2**43) == "8 TiB"
    assert format_bytes(-1536) == "-1.5 KiB"


@pytest.mark.parametrize("exponent", range(0, 40, 4))
def test_written_sizes_can_be_read_again(exponent):
    """What is written exactly is read as the same size."""
    assert parse_bytes(format_bytes(2**exponent)) == 2**exponent


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ns"),
        (12.5e-6, "12.5 µs"),
        (1e-3, "1 ms"),
        (3.14159, "3.14 s"),
        (999.6e-6, "1000 µs"),
        (1234.0, "1234 s"),
        (2e-9, "2 ns"),
    ],
)
def test_durations_have_the_unit_that_suits_them(seconds, text):
    """Three digits, and never an exponent, which nobody reads."""
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [(50e9, "50 GB/s"), (3350e9, "3350 GB/s"), (1.5e6, "1.5 MB/s"), (12, "12 B/s")],
)
def test_bandwidths_are_decimal(rate, text):
    """A bandwidth is written in powers of 1000, as vendors write it."""
    assert format_bandwidth(rate) == text
