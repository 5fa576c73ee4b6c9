"""What is read from the compiler's texts, and the figures that follow from it."""

import pytest

from xlaport.preflight import estimate, hlo, memory, topology
from xlaport.preflight.hlo import Collective, Optimized
from xlaport.preflight.topology import GIB

V5E = topology.generation("v5e")

LOOP = """
HloModule m, is_scheduled=true

%fused (p: f32[4]) -> f32[4] {
  ROOT %a = f32[4]{0} add(%p, %p)
}

%body (t: (s32[], f32[8])) -> (s32[], f32[8]) {
  %g = f32[8]{0} all-gather(%x), channel_id=3, replica_groups=[1,4]<=[4], dimensions={0}
  %f = f32[4]{0} fusion(%g), kind=kLoop, calls=%fused, backend_config={"estimated_cycles":"100"}
}

%condition (t: (s32[], f32[8])) -> pred[] {
  %limit = s32[]{:T(128)} constant(6)
  %counter = s32[] get-tuple-element(%t), index=0
  ROOT %c = pred[] compare(%counter, %limit), direction=LT
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %w = (s32[], f32[8]) while(%init), condition=%condition, body=%body
  %start = (f32[2]{0}, f32[8]{0}) all-gather-start(%a), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}
  %done = f32[8]{0} all-gather-done(%start)
  %r = bf16[16]{0} all-reduce(%b), channel_id=2, replica_groups={{0,1},{2,3}}, to_apply=%sum
  %k = f32[4]{0} custom-call(%done), custom_call_target="tpu_custom_call"
  ROOT %o = f32[8]{0} copy(%done), backend_config={"estimated_cycles":"7"}
}
"""


def test_loops_multiply_cycles_and_collectives():
    found = hlo.read(LOOP)
    assert (found.cycles, found.costed, found.uncosted) == (6 * 100 + 7, 2, 1)
    assert (found.loops, found.unknown_loops) == (1, 0)
    assert found.collectives == (Collective("all-gather", 7, 6 * 32 + 32, 4), Collective("all-reduce", 1, 32, 2))


def test_a_loop_says_how_often_it_runs_or_is_counted_once():
    told = LOOP.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"5"}}')
    assert hlo.read(told).cycles == 5 * 100 + 7
    unknown = hlo.read(LOOP.replace("direction=LT", "direction=NE"))
    assert (unknown.cycles, unknown.unknown_loops) == (107, 1)


def test_halves_of_an_asynchronous_collective_are_one():
    twice = LOOP.replace("%done = f32[8]{0} all-gather-done(%start)", "%again = f32[8]{0} all-gather(%a), channel_id=1, replica_groups={{0,1,2,3}}\n  %done = f32[8]{0} copy(%again)")
    assert hlo.read(twice).collectives[0].count == 7


@pytest.mark.parametrize(
    "written, size",
    [
        ("{{0,1,2,3}}", 4), ("{{0,1},{2,3}}", 2), ("[2,8]<=[16]", 8), ("mesh['axis_0'=4] {'axis_0'}", 4), ("mesh['a'=4,'b'=2] {'a','b'}", 8),
        ("mesh['a'=4,'b'=2] {'b'}", 2), ("mesh['a'=16] {'a':(2)4}", 4), ("{}", 1),
    ],
)
def test_devices_of_a_group(written, size):
    assert hlo.group_size(f"%g = f32[8] all-gather(%x), channel_id=3, replica_groups={written}, dimensions={{0}}") == size


def test_the_largest_group_of_a_kind_is_its_group():
    smaller = LOOP.replace("channel_id=3, replica_groups=[1,4]<=[4]", "channel_id=3, replica_groups=[2,2]<=[4]")
    assert smaller != LOOP
    assert [found.group for found in hlo.read(smaller).collectives] == [4, 2]


def test_a_text_that_is_no_program_gives_nothing():
    assert hlo.read("") == Optimized(0, 0, 0, 0, 0, ())


STATS = {"argument": 4 * GIB, "output": 4 * GIB, "alias": 3 * GIB, "temp": 6 * GIB, "generated_code": GIB, "peak": 9 * GIB}


def test_memory_is_what_is_reserved_and_the_peak_has_other_memories_in_it():
    found = memory.of_compiled(STATS, 16 * GIB)
    assert found.total == (4 + 4 - 3 + 6 + 1) * GIB and found.fits
    assert memory.of_compiled({**STATS, "peak": 14 * GIB}, 16 * GIB).total == found.total
    assert memory.of_compiled({**STATS, "peak": 14 * GIB}, 16 * GIB).live_peak == 14 * GIB


def test_the_verdict_is_our_own_comparison():
    """libtpu 0.0.21 compiles programs whose arguments do not fit."""
    assert not memory.of_compiled({**STATS, "argument": 20 * GIB}, 16 * GIB).fits
    assert memory.of_compiled(STATS, 12 * GIB).is_tight and not memory.of_compiled(STATS, 16 * GIB).is_tight


NEW = "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries (28.87G) exceeds available HBM (15.75G). HLO module: M."
OLD = """RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 24.00G of 15.75G hbm. Exceeded hbm capacity by 8.25G.

Total hbm usage >= 24.25G:
    reserved        258.00M
    program          24.00G
    arguments            0B

Largest program allocations in hbm:

  1. Size: 4.00G
     Operator: op_name="aten::matmul at train.py:7"
     Shape: f32[131072,8192]{1,0:T(8,128)}
     Unpadded size: 4.00G
     Allocation type: HLO temp
     ==========================

  2. Size: 512.00M
     Shape: bf16[8,128]{1,0}
"""


def test_running_out_of_memory_is_read_from_either_libtpu():
    new = memory.of_exhausted(NEW, 2 * GIB, V5E.hbm_limit)
    assert (new.total, new.fits, new.limit) == (int(28.87 * GIB), False, int(15.75 * GIB))
    old = memory.of_exhausted(OLD, 2 * GIB, V5E.hbm_limit)
    assert (old.total, old.fits, old.limit) == (26 * GIB, False, int(15.75 * GIB))
    assert memory.of_exhausted("something else", 2 * GIB, V5E.hbm_limit).limit == V5E.hbm_limit


def test_a_program_that_fits_by_its_text_and_still_ran_out_does_not_fit():
    assert not memory.of_exhausted(NEW.replace("28.87G", "1.00G"), 0, V5E.hbm_limit).fits


def test_largest_buffers_of_the_older_text():
    first, second = memory.from_text(OLD)
    assert (first.size, first.shapes, first.where) == (4 * GIB, ("f32[131072,8192]",), ("aten::matmul at train.py:7",))
    assert (second.size, second.where) == (512 * 2**20, ())


REPORT = """Memory Space: default (color=0)
Total bytes: 30994316288 (28.87GiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
    6.14GiB( 16%);    6.14GiB;     30556160;               64; 4×f32[32768,50257], 32×f32[384,1024,1024]
    7.64GiB( 20%);    1.50GiB;  17893048320;                2; f32[32,1024,768], f32[384,1024,1024]

  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
    9.00GiB(100%);    9.00GiB;            0;                1; f32[64,32]
"""
PROGRAM = """
  %softmax.1 = f32[384,1024,1024]{2,1,0:T(8,128)} fusion(%a), kind=kLoop, metadata={op_name="aten::softmax at model.py:13"}
  %softmax.2 = f32[384,1024,1024]{2,1,0:T(8,128)} fusion(%b), kind=kLoop, metadata={op_name="aten::_softmax_backward_data"}
  %softmax.3 = f32[384,1024,1024]{2,1,0:T(8,128)} fusion(%c), kind=kLoop, metadata={op_name="aten::_softmax_backward_data"}
"""


def test_largest_buffers_carry_the_users_lines():
    first, second = memory.buffers(REPORT, PROGRAM)
    assert (first.size, first.values, first.shapes) == (int(6.14 * GIB), 64, ("f32[32768,50257]", "f32[384,1024,1024]"))
    assert second.where[0] == "aten::softmax at model.py:13"
    assert len(memory.parse_report(REPORT)) == 2  # the tables after the first are of other memories


UPDATED = GIB


def program(**values) -> Optimized:
    return Optimized(**{"cycles": 1_500_000, "costed": 4, "uncosted": 0, "loops": 0, "unknown_loops": 0, "collectives": (), **values})


def test_time_is_a_bound_and_an_estimate():
    found = estimate.of_step(V5E, program(), UPDATED, xla_flops=1.97e11, stablehlo_flops=9e11)
    assert found.flops_source == "XLA" and found.bound_by == "memory"
    assert found.lower_bound == pytest.approx(2 * GIB / 819e9)
    assert found.cost_model == pytest.approx(1e-3)
    assert found.peak_fraction == pytest.approx(1.0)


def test_with_loops_the_flops_are_those_of_the_program_before_partitioning():
    found = estimate.of_step(V5E, program(loops=2), UPDATED, xla_flops=1.97e11, stablehlo_flops=9e11)
    assert (found.flops, found.flops_source, found.bound_by) == (9e11, "StableHLO", "FLOPs")


def test_a_program_without_cycles_has_no_cost_model_time():
    found = estimate.of_step(V5E, program(cycles=0, costed=0), UPDATED, 1e9, 1e9)
    assert found.cost_model is None and found.estimate is None and found.peak_fraction is None


@pytest.mark.parametrize(
    "kind, factor", [("all-gather", 3 / 4), ("all-reduce", 6 / 4), ("reduce-scatter", 3), ("all-to-all", 3 / 4), ("collective-permute", 1)]
)
def test_bytes_that_a_device_sends(kind, factor):
    assert estimate.sent(Collective(kind, 1, 1000, 4)) == pytest.approx(1000 * factor)


def test_collectives_take_time_that_the_cost_model_leaves_out():
    gathered = Collective("all-gather", 1, 4 * 10**9, 4)
    found = estimate.of_step(V5E, program(collectives=(gathered,)), UPDATED, 1e9, 1e9)
    assert found.collectives == pytest.approx(3e9 / 200e9)
    assert found.estimate == pytest.approx(found.cost_model + found.collectives)
