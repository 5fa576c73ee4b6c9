"""Slices of TPU chips: names, what may be rented, and which is meant by a wrong name."""

import pytest

from xlaport.errors import UserError
from xlaport.preflight import topology


def refused(text: str) -> str:
    with pytest.raises(UserError) as caught:
        topology.parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    "name, chips, devices",
    [("v4:2x2x1", 4, 4), ("v5e:1x1", 1, 1), ("v5e:16x16", 256, 256), ("v5p:4x4x4", 64, 64), ("v6e:4x4", 16, 16), ("tpu7x:2x2x1", 4, 8)],
)
def test_slices(name, chips, devices):
    found = topology.parse(name)
    assert (found.name, found.chips, found.devices) == (name, chips, devices)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ("v5e:32x32", "no slice v5e:32x32 can be rented; the nearest: v5e:16x16"),
        ("v5e:4x4x4", "no slice v5e:4x4x4 can be rented; the nearest: v5e:8x8, v5e:8x16"),
        ("v5e:3x3", "no slice v5e:3x3 can be rented; the nearest: v5e:2x4, v5e:4x4"),
        ("v5e:big", "no slice v5e:big can be rented; the nearest: v5e:1x1, v5e:2x2, v5e:2x4"),
        ("v7x:2x2x1", "no TPU is called 'v7x': did you mean tpu7x? (known: v4, v5e, v5p, v6e, tpu7x)"),
        ("v9:1x1", "no TPU is called 'v9' (known: v4, v5e, v5p, v6e, tpu7x)"),
        ("trillium:2x2", "no TPU is called 'trillium': did you mean v6e? (known: v4, v5e, v5p, v6e, tpu7x)"),
        ("h100:2x2", "no TPU is called 'h100' (known: v4, v5e, v5p, v6e, tpu7x)"),
        ("v5e-16", "'v5e-16' is not a topology, which is written TPU:SHAPE: v5e-16 is v5e:4x4"),
        ("v5litepod-8", "'v5litepod-8' is not a topology, which is written TPU:SHAPE: v5litepod-8 is v5e:2x4"),
        ("v5p-128", "'v5p-128' is not a topology, which is written TPU:SHAPE: v5p-128 is v5p:4x4x4"),
        ("v5e", "'v5e' is not a topology, which is written TPU:SHAPE, for example v5e:1x1"),
        ("", "'' is not a topology, which is written TPU:SHAPE, for example v5e:2x2"),
    ],
)
def test_wrong_names_get_the_nearest_right_ones(wrong, said):
    assert refused(wrong) == said


def test_a_ladder_has_the_slices_of_exactly_these_sizes():
    assert [found.name for found in topology.ladder(["v5e", "v5p"], [4, 64])] == ["v5e:2x2", "v5e:8x8", "v5p:2x2x1", "v5p:4x4x4"]
    with pytest.raises(UserError, match="no slice of v5e has 3 or 5 chips"):
        topology.ladder(["v5e"], [3, 5])


def test_the_facts_are_consistent():
    for known in topology.generations():
        sizes = [found.chips for found in known.topologies]
        assert sizes == sorted(sizes)
        assert len(set(known.shapes)) == len(known.shapes)
        assert known.hbm_gib_per_device * known.devices_per_chip <= known.hbm_gib_per_chip * 1.01  # v5p: 95.73 of 95 said, 96 built in
        assert known.source.startswith("https://") and known.read


def test_peaks_of_a_device_are_those_of_its_share_of_the_chip():
    ironwood = topology.generation("tpu7x")
    assert ironwood.peak_flops == 2307e12 / 2
    assert topology.generation("v5e").hbm_bandwidth == 819e9
