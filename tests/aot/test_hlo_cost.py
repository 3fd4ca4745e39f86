"""Costs added up over a program."""

import jax
import jax.numpy as jnp
import pytest

from vit_jax.aot import hlo_cost, hlo_text, kernels
from vit_jax.aot.collectives import Collective
from vit_jax.sharding.topologies import find_accelerator

V5E = find_accelerator("tpu v5e")


def cost(text: str, num_devices: int = 8) -> hlo_cost.Cost:
  return hlo_cost.cost(
    hlo_text.parse(text), accelerator=V5E, num_devices=num_devices
  )


def takes(cycles: int) -> str:
  """What XLA:TPU writes beside an instruction that takes so long."""
  return f'backend_config={{"window_config":{{"estimated_cycles":"{cycles}"}}}}'


def looping(condition: str, loop: str = "") -> str:
  """A program whose loop's body takes 10 cycles and sends 32 bytes."""
  return f"""\
HloModule m

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {{
  %p = (s32[], f32[8]{{0}}) parameter(0)
  %x = f32[8]{{0}} get-tuple-element(%p), index=1
  %y = f32[8]{{0}} fusion(%x), kind=kLoop, calls=%fused, {takes(10)}
  %z = f32[8]{{0}} all-reduce(%y), channel_id=1, replica_groups={{{{0,1}}}}
  %k = f32[8]{{0}} custom-call(%z), custom_call_target="Unheard"
  ROOT %t = (s32[], f32[8]{{0}}) tuple(%x, %k)
}}

%fused (a: f32[8]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  ROOT %s = f32[8]{{0}} sine(%a), {takes(1000)}
}}

{condition}
ENTRY %main (x: f32[8]) -> f32[8] {{
  %x = f32[8]{{0}} parameter(0)
  %c = f32[8]{{0}} copy(%x), {takes(7)}
  %t = (s32[], f32[8]{{0}}) tuple(%x, %c)
  ROOT %w = (s32[], f32[8]{{0}}) while(%t), condition=%cond, body=%body{loop}
}}
"""


PLAIN = """\
%cond (p: (s32[], f32[8])) -> pred[] {
  %p = (s32[], f32[8]{0}) parameter(0)
  %limit = s32[] constant(12)
  %i = s32[] get-tuple-element(%p), index=0
  ROOT %lt = pred[] compare(%i, %limit), direction=LT
}
"""
# The comparison in a fusion that takes the limit as an argument, beside a
# number that is none.
FUSED = """\
%compared (a: s32[], b: s32[]) -> pred[] {
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  %d = s32[] constant(99)
  %e = s32[] add(%a, %d)
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}

%cond (p: (s32[], f32[8])) -> pred[] {
  %p = (s32[], f32[8]{0}) parameter(0)
  %limit = s32[] constant(12)
  %i = s32[] get-tuple-element(%p), index=0
  ROOT %lt = pred[] fusion(%i, %limit), kind=kLoop, calls=%compared
}
"""
UNKNOWN = """\
%cond (p: (s32[], f32[8])) -> pred[] {
  %p = (s32[], f32[8]{0}) parameter(0)
  %limit = s32[] get-tuple-element(%p), index=0
  %i = s32[] get-tuple-element(%p), index=0
  ROOT %lt = pred[] compare(%i, %limit), direction=LT
}
"""


@pytest.mark.parametrize("condition", [PLAIN, FUSED])
def test_a_loops_body_counts_as_often_as_it_runs(condition):
  found = cost(looping(condition))
  assert found.cycles == 7 + 12 * 10
  assert found.collectives == {Collective("all-reduce", 32, 2): 12}
  assert found.by_kind() == {"all-reduce": {"count": 12, "bytes": 384}}
  assert found.uncosted == {"Unheard": 12}
  assert found.loops_of_unknown_length == 0


def test_an_instruction_has_the_cost_of_what_it_runs():
  found = hlo_cost.arithmetic(hlo_text.parse(looping(PLAIN)), accelerator=V5E)
  cycles = {one.name: part.cycles for one, part in found}
  assert cycles == {"x": 0, "c": 7, "t": 0, "w": 12 * 10}


def test_a_length_that_the_compiler_wrote_down_is_believed():
  known = ', backend_config={"known_trip_count":{"n":"5"}}'
  assert cost(looping(UNKNOWN, known)).cycles == 7 + 5 * 10


def test_a_loop_of_unknown_length_counts_once_and_is_named():
  found = cost(looping(UNKNOWN))
  assert found.cycles == 7 + 10
  assert found.loops_of_unknown_length == 1


def test_of_branches_the_costliest_counts():
  branches = "branch_computations={%cheap, %dear}"
  text = f"""\
HloModule m

%cheap (a: f32[8]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  ROOT %b = f32[8]{{0}} copy(%a), {takes(1)}
}}

%dear (a: f32[8]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  ROOT %b = f32[8]{{0}} copy(%a), {takes(100)}
}}

ENTRY %main (i: s32[], x: f32[8]) -> f32[8] {{
  %i = s32[] parameter(0)
  %x = f32[8]{{0}} parameter(1)
  ROOT %r = f32[8]{{0}} conditional(%i, %x, %x), {branches}
}}
"""
  assert cost(text).cycles == 100


# One gather whose parts stand in two fusions.
SPREAD = """\
%part.1 (a: f32[8]) -> f32[64] {
  %a = f32[8]{0} parameter(0)
  ROOT %g = f32[64]{0} all-gather(%a), channel_id=4, dimensions={0}
}

%part.2 (a: f32[8]) -> f32[64] {
  %a = f32[8]{0} parameter(0)
  ROOT %g = f32[64]{0} all-gather(%a), channel_id=4, dimensions={0}
}
"""


def test_an_exchange_spread_over_fusions_counts_once():
  text = f"""\
HloModule m

{SPREAD}

ENTRY %main (x: f32[8]) -> f32[64] {{
  %x = f32[8]{{0}} parameter(0)
  %y = f32[64]{{0}} fusion(%x), kind=kCustom, calls=%part.1, {takes(3)}
  %z = f32[64]{{0}} fusion(%x), kind=kCustom, calls=%part.2, {takes(4)}
  %other = f32[64]{{0}} all-gather(%x), channel_id=5, replica_groups={{}}
  ROOT %t = (f32[64]{{0}}, f32[64]{{0}}) tuple(%z, %other)
}}
"""
  found = cost(text)
  assert found.by_kind() == {"all-gather": {"count": 2, "bytes": 512}}
  assert found.cycles == 7
  # 7/8 of 256 bytes, twice, at half of the 400 GB/s.
  assert found.collective_seconds(V5E) == pytest.approx(2 * 224 / 200e9)


# 7/8 of 256 bytes at half of the 400 GB/s, in cycles of 1.5 GHz.
GATHER_CYCLES = 224 / 200e9 * 1.5e9


@pytest.mark.parametrize(
  ("beside", "cycles"),
  [
    (1, GATHER_CYCLES + 7),  # Hides one of the exchange's cycles.
    (100, 100 + 7),
  ],
)
@pytest.mark.parametrize("spelling", ["fusions", "start_and_done"])
def test_an_exchange_goes_on_beside_arithmetic_until_it_is_waited_for(
  spelling, beside, cycles
):
  begin, end = {
    "fusions": (
      "f32[64]{0} fusion(%x), kind=kCustom, calls=%part.1",
      "f32[64]{0} fusion(%s), kind=kCustom, calls=%part.2",
    ),
    "start_and_done": (
      "(f32[8]{0}, f32[64]{0}) all-gather-start(%x), channel_id=4",
      "f32[64]{0} all-gather-done(%s)",
    ),
  }[spelling]
  text = f"""\
HloModule m

{SPREAD}

ENTRY %main (x: f32[8]) -> f32[64] {{
  %x = f32[8]{{0}} parameter(0)
  %s = {begin}
  %b = f32[8]{{0}} copy(%x), {takes(beside)}
  %d = {end}
  ROOT %c = f32[64]{{0}} copy(%d), {takes(7)}
}}
"""
  found = cost(text)
  assert found.cycles == beside + 7
  assert found.collective_seconds(V5E) == pytest.approx(224 / 200e9)
  assert found.overlapped_seconds == pytest.approx(cycles / 1.5e9)


def test_nothing_goes_on_beside_an_exchange_in_one_piece():
  alone = "channel_id=4, replica_groups={}, dimensions={0}"
  text = f"""\
HloModule m

ENTRY %main (x: f32[8]) -> f32[64] {{
  %x = f32[8]{{0}} parameter(0)
  %b = f32[8]{{0}} copy(%x), {takes(7)}
  %g = f32[64]{{0}} all-gather(%b), {alone}
  ROOT %c = f32[64]{{0}} copy(%g), {takes(7)}
}}
"""
  cycles = 14 + GATHER_CYCLES
  assert cost(text).overlapped_seconds == pytest.approx(cycles / 1.5e9)


def test_exchanges_under_way_at_once_share_the_links():
  gathers = "channel_id={}, replica_groups={{}}, dimensions={{0}}"
  text = f"""\
HloModule m

ENTRY %main (x: f32[8]) -> f32[64] {{
  %x = f32[8]{{0}} parameter(0)
  %s = (f32[8]{{0}}, f32[64]{{0}}) all-gather-start(%x), {gathers.format(1)}
  %t = (f32[8]{{0}}, f32[64]{{0}}) all-gather-start(%x), {gathers.format(2)}
  %e = f32[64]{{0}} all-gather-done(%t)
  ROOT %d = f32[64]{{0}} all-gather-done(%s)
}}
"""
  cycles = 2 * GATHER_CYCLES
  assert cost(text).overlapped_seconds == pytest.approx(cycles / 1.5e9)


def test_exchanges_that_begin_together_go_in_the_order_of_the_program():
  first = "channel_id=1, replica_groups={}, dimensions={0}"
  second = "channel_id=2, replica_groups={}, dimensions={0}"
  text = f"""\
HloModule m

%begin (a: f32[8], b: f32[4]) -> (f32[64], f32[32]) {{
  %a = f32[8]{{0}} parameter(0)
  %b = f32[4]{{0}} parameter(1)
  %g = f32[64]{{0}} all-gather(%a), {first}
  %h = f32[32]{{0}} all-gather(%b), {second}
  ROOT %t = (f32[64]{{0}}, f32[32]{{0}}) tuple(%g, %h)
}}

%end (a: f32[8]) -> f32[64] {{
  %a = f32[8]{{0}} parameter(0)
  ROOT %g = f32[64]{{0}} all-gather(%a), {first}
}}

%end.2 (b: f32[4]) -> f32[32] {{
  %b = f32[4]{{0}} parameter(0)
  ROOT %h = f32[32]{{0}} all-gather(%b), {second}
}}

ENTRY %main (x: f32[8], y: f32[4]) -> f32[32] {{
  %x = f32[8]{{0}} parameter(0)
  %y = f32[4]{{0}} parameter(1)
  %s = (f32[64]{{0}}, f32[32]{{0}}) fusion(%x, %y), calls=%begin
  %d = f32[64]{{0}} fusion(%x), calls=%end
  %c = f32[64]{{0}} copy(%d), {takes(100)}
  ROOT %e = f32[32]{{0}} fusion(%y), calls=%end.2
}}
"""
  # The second, half as large, is over before the 100 cycles are.
  cycles = GATHER_CYCLES + 100
  assert cost(text).overlapped_seconds == pytest.approx(cycles / 1.5e9)


def test_a_loops_schedule_repeats():
  reduce = 2 * 0.5 * 32 / 200e9  # Between the two of a group.
  expected = 7 / 1.5e9 + 12 * (10 / 1.5e9 + reduce)
  assert cost(looping(PLAIN)).overlapped_seconds == pytest.approx(expected)


def test_exchanges_of_one_channel_differ_by_their_size():
  text = """\
HloModule m

%part.1 (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  ROOT %g = f32[8]{0} all-reduce(%a), channel_id=1, replica_groups={}
}

%part.2 (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  ROOT %g = f32[4]{0} all-reduce(%a), channel_id=1, replica_groups={}
}

ENTRY %main (x: f32[8], y: f32[4]) -> (f32[8], f32[4]) {
  %x = f32[8]{0} parameter(0)
  %y = f32[4]{0} parameter(1)
  %a = f32[8]{0} fusion(%x), kind=kCustom, calls=%part.1
  %b = f32[4]{0} fusion(%y), kind=kCustom, calls=%part.2
  ROOT %t = (f32[8]{0}, f32[4]{0}) tuple(%a, %b)
}
"""
  assert cost(text).by_kind() == {"all-reduce": {"count": 2, "bytes": 48}}


def test_reduce_scatters_that_share_a_channel_count_apart():
  text = """\
HloModule m

%part (a: f32[64]) -> f32[8] {
  %a = f32[64]{0} parameter(0)
  %i = u32[] partition-id()
  %sum = f32[64]{0} all-reduce(%a), channel_id=1, replica_groups={}
  ROOT %kept = f32[8]{0} dynamic-slice(%sum, %i), dynamic_slice_sizes={8}
}

ENTRY %main (x: f32[64], y: f32[64]) -> (f32[8], f32[8]) {
  %x = f32[64]{0} parameter(0)
  %y = f32[64]{0} parameter(1)
  %a = f32[8]{0} fusion(%x), kind=kCustom, calls=%part
  %b = f32[8]{0} fusion(%y), kind=kCustom, calls=%part
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%a, %b)
}
"""
  assert cost(text).by_kind() == {"reduce-scatter": {"count": 2, "bytes": 512}}


def calling(name: str) -> str:
  """A program that calls a Pallas kernel and makes a note to the compiler."""
  attributes = (
    'custom_call_target="tpu_custom_call",'
    f' metadata={{op_name="jit(step)/{name}/pallas_call"}}'
  )
  return f"""\
HloModule m

ENTRY %main (x: bf16[2,197,128]) -> bf16[2,197,128] {{
  %x = bf16[2,197,128]{{2,1,0}} parameter(0)
  %note = bf16[2,197,128] custom-call(%x), custom_call_target="ConcatBitcast"
  ROOT %closed_call.7 = bf16[2,197,128] custom-call(%note), {attributes}
}}
"""


@pytest.mark.parametrize(
  "name", ["mine_backward", "block/mine", "transpose(jvp(mine_backward))"]
)
def test_a_kernel_of_ours_counts_by_its_bound(monkeypatch, name):
  def bound(call: kernels.Call, accelerator) -> float:
    assert accelerator is V5E
    return float(call.operands[0].dims[1] + call.results[0].dims[2])

  monkeypatch.setattr(kernels, "BOUNDS", {"mine": bound})
  found = cost(calling(name))
  assert found.cycles == found.kernel_cycles == 197 + 128
  assert found.kernel_calls == 1
  assert not found.uncosted


def test_a_kernel_without_a_bound_is_named(monkeypatch):
  monkeypatch.setattr(kernels, "BOUNDS", {"mine": lambda call, chip: 1.0})
  found = cost(calling("somebodys"))
  assert found.cycles == 0
  assert found.uncosted == {"somebodys": 1}
  assert found.kernel_calls == 1


def test_a_scan_has_the_flops_of_its_layers_written_out():
  def layer(x, w):
    return jnp.tanh(x @ w), None

  def scanned(x, ws):
    return jax.lax.scan(layer, x, ws)[0]

  def written_out(x, ws):
    for w in ws:
      x, _ = layer(x, w)
    return x

  x, ws = jnp.zeros((4, 8)), jnp.zeros((5, 8, 8))
  one, other = (
    cost(jax.jit(f).lower(x, ws).compile().as_text())
    for f in (scanned, written_out)
  )
  assert one.flops == other.flops == 5 * 2 * 4 * 8 * 8
  assert one.loops_of_unknown_length == 0
