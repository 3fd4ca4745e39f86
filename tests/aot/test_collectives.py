"""What devices send each other."""

import pytest

from vit_jax.aot import collectives, hlo_text
from vit_jax.aot.collectives import Collective
from vit_jax.sharding.topologies import Accelerator, find_accelerator

V5E = find_accelerator("tpu v5e")


def find(line: str, parameter: str = "f32[64]") -> Collective | None:
  """What the last line of a program of 8 devices is."""
  text = f"""\
HloModule m

ENTRY %main (a: {parameter}) -> f32[64] {{
  %a = {parameter}{{0:T(256)}} parameter(0)
  ROOT {line}
}}
"""
  module = hlo_text.parse(text)
  entry = module[module.entry]
  return collectives.find(entry, entry[entry.root], 8)


@pytest.mark.parametrize(
  ("groups", "size"),
  [
    ("{{0,1,2,3},{4,5,6,7}}", 4),
    ("[4,2]<=[8]", 2),
    ("[2,4]<=[4,2]T(1,0)", 4),
    ("mesh['axis_0'=8] {'axis_0'}", 8),
    ("mesh['axis_0'=2,'axis_1'=4] {'axis_1'}", 4),
    ("mesh['axis_0'=8] {'axis_0':(2)4}", 4),
    ("{}", 8),
  ],
)
def test_groups_are_read_in_every_form(groups, size):
  found = find(
    "%r = f32[64]{0} all-reduce(%a), channel_id=1,"
    f" replica_groups={groups}, use_global_device_ids=true, to_apply=%add"
  )
  assert found == Collective("all-reduce", 256, size, "1")


@pytest.mark.parametrize(
  ("line", "kind", "num_bytes"),
  [
    ("%r = f32[512]{0} all-gather(%a), dimensions={0}", "all-gather", 2048),
    (
      "%r = (f32[64]{0}, f32[512]{0}) all-gather-start(%a), dimensions={0}",
      "all-gather",
      2048,
    ),
    ("%r = f32[8]{0} reduce-scatter(%a), to_apply=%s", "reduce-scatter", 256),
    ("%r = f32[64]{0} all-to-all(%a), dimensions={0}", "all-to-all", 256),
    (
      "%r = (f32[64]{0}, f32[64]{0}, u32[]) collective-permute-start(%a)",
      "collective-permute",
      256,
    ),
    # Summed in the type in which it arrives.
    ("%r = bf16[64]{0} all-reduce(%a), to_apply=%s", "all-reduce", 128),
  ],
)
def test_bytes_are_those_of_the_whole_array(line, kind, num_bytes):
  assert find(line) == Collective(kind, num_bytes, 8)


def test_a_sum_over_slices_is_no_exchange_of_the_interconnect():
  found = find(
    "%r = (f32[64]{0}, u32[], token[]) send(%a), is_host_transfer=true,"
    ' frontend_attributes={_xla_megascale_transfer_type="ALL_REDUCE"}'
  )
  assert found == Collective("between-slices", 256, 8)
  assert found.seconds(V5E) is None


@pytest.mark.parametrize(
  "line",
  [
    "%r = f32[64]{0} add(%a, %a)",
    "%r = f32[64]{0} all-reduce-done(%a)",
    "%r = (f32[64]{0}, u32[], token[]) send(%a), is_host_transfer=true",
  ],
)
def test_other_instructions_send_nothing(line):
  assert find(line) is None


def test_a_sum_of_which_a_part_is_kept_is_a_reduce_scatter():
  text = """\
HloModule m

%all-reduce-scatter (a: f32[64]) -> f32[8] {
  %a = f32[64]{0} parameter(0)
  %r = f32[64]{0} all-reduce(%a), channel_id=3, replica_groups={}
  %i = u32[] partition-id()
  ROOT %s = f32[8]{0} dynamic-slice(%r, %i), dynamic_slice_sizes={8}
}

ENTRY %main (a: f32[64]) -> f32[8] {
  %a = f32[64]{0} parameter(0)
  ROOT %f = f32[8]{0} fusion(%a), kind=kCustom, calls=%all-reduce-scatter
}
"""
  inside = hlo_text.parse(text)["all-reduce-scatter"]
  found = collectives.find(inside, inside["r"], 8)
  assert found == Collective("reduce-scatter", 256, 8, "3")


def test_sums_of_which_all_parts_are_kept_are_one_reduce_scatter():
  text = """\
HloModule m

%all-reduce-scatter (a: f32[64], b: f32[32]) -> (f32[8], f32[4]) {
  %a = f32[64]{0} parameter(0)
  %b = f32[32]{0} parameter(1)
  %sum = (f32[64]{0}, f32[32]{0}) all-reduce(%a, %b), channel_id=1
  %i = u32[] partition-id()
  %sum.0 = f32[64]{0} get-tuple-element(%sum), index=0
  %part.0 = f32[8]{0} dynamic-slice(%sum.0, %i), dynamic_slice_sizes={8}
  %sum.1 = f32[32]{0} get-tuple-element(%sum), index=1
  %part.1 = f32[4]{0} dynamic-slice(%sum.1, %i), dynamic_slice_sizes={4}
  ROOT %t = (f32[8]{0}, f32[4]{0}) tuple(%part.0, %part.1)
}

ENTRY %main (a: f32[64], b: f32[32]) -> (f32[8], f32[4]) {
  %a = f32[64]{0} parameter(0)
  %b = f32[32]{0} parameter(1)
  ROOT %f = (f32[8], f32[4]) fusion(%a, %b), calls=%all-reduce-scatter
}
"""
  inside = hlo_text.parse(text)["all-reduce-scatter"]
  found = collectives.find(inside, inside["sum"], 8)
  assert found == Collective("reduce-scatter", 256 + 128, 8, "1")


def ring_steps(num_chips: int, num_bytes: int) -> int:
  """Bytes that a chip sends when pieces go round a ring until all have all."""
  pieces = [{chip} for chip in range(num_chips)]
  sent = 0
  while any(len(held) < num_chips for held in pieces):
    pieces = [held | pieces[chip - 1] for chip, held in enumerate(pieces)]
    sent += num_bytes // num_chips
  return sent


@pytest.mark.parametrize("chips", [2, 4, 16])
def test_time_is_that_of_a_ring(chips):
  num_bytes, rate = 2**20, V5E.interconnect / 2
  gather = Collective("all-gather", num_bytes, chips).seconds(V5E)
  assert gather == pytest.approx(ring_steps(chips, num_bytes) / rate)
  for kind, factor in (
    ("reduce-scatter", 1),
    ("all-to-all", 1),
    ("all-reduce", 2),
  ):
    seconds = Collective(kind, num_bytes, chips).seconds(V5E)
    assert seconds == pytest.approx(factor * gather)


def test_a_step_round_the_ring_sends_everything_once():
  seconds = Collective("collective-permute", 400, 4).seconds(V5E)
  assert seconds == pytest.approx(400 / 200e9)


def test_two_cores_of_a_chip_meet_in_its_memory():
  v3 = find_accelerator("tpu v3")
  assert Collective("all-reduce", 1000, 2).seconds(v3) == 0
  # Eight cores are four chips.
  four = dict(kind="all-reduce", num_bytes=1000)
  assert Collective(**four, group=8).seconds(v3) == pytest.approx(
    2 * 3 / 4 * 1000 / 280e9
  )


def test_without_links_the_time_is_not_known():
  alone = Accelerator(1e12, 1e9, 1e9, 0.0)
  assert Collective("all-reduce", 1000, 2).seconds(alone) is None


H100 = find_accelerator("NVIDIA H100")


@pytest.mark.parametrize(
  ("groups", "size", "hosts"),
  [
    # Devices 0 to 3 are of the first host, 4 to 7 of the second.
    ("{{0,1,2,3},{4,5,6,7}}", 4, 1),
    ("{{0,4},{1,5},{2,6},{3,7}}", 2, 2),
    ("[2,4]<=[8]", 4, 1),
    ("[4,2]<=[2,4]T(1,0)", 2, 2),
    ("mesh['a'=2,'b'=4] {'b'}", 4, 1),
    ("mesh['a'=2,'b'=4] {'a'}", 2, 2),
    ("mesh['a'=2,'b'=4] {'b':(2)2}", 2, 1),
    ("mesh['a'=8] {'a':(1)4}", 4, 2),
    ("{}", 8, 2),
  ],
)
def test_groups_are_of_one_host_or_of_several(groups, size, hosts):
  text = f"""\
HloModule m

ENTRY %main (a: f32[64]) -> f32[64] {{
  %a = f32[64]{{0}} parameter(0)
  ROOT %r = f32[64]{{0}} all-reduce(%a), replica_groups={groups}, to_apply=%add
}}
"""
  module = hlo_text.parse(text)
  entry = module[module.entry]
  found = collectives.find(entry, entry[entry.root], 8, devices_per_host=4)
  assert found == Collective("all-reduce", 256, size, None, hosts)


def test_what_leaves_a_host_is_divided_among_its_adapters():
  inside = Collective("all-gather", 2**30, 8).seconds(H100)
  assert inside == pytest.approx(7 / 8 * 2**30 / 450e9)
  # Four hosts of eight: 31 of 32 parts go round through eight adapters.
  across = Collective("all-gather", 2**30, 32, hosts=4).seconds(H100)
  assert across == pytest.approx(31 / 32 * 2**30 / 8 / 50e9)
  # One GPU of each host.
  alone = Collective("all-gather", 2**30, 4, hosts=4).seconds(H100)
  assert alone == pytest.approx(3 / 4 * 2**30 / 50e9)


def test_all_to_all_leaves_a_host_by_each_gpus_adapter():
  seconds = Collective("all-to-all", 10**9, 16, hosts=2).seconds(H100)
  assert seconds == pytest.approx(0.5e9 / 50e9)


def test_a_network_of_unknown_speed_has_no_time():
  between = Collective("all-reduce", 256, 8, hosts=2)
  assert between.seconds(find_accelerator("NVIDIA L4")) is None
