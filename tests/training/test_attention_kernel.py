"""What `model.attention = 'auto'` becomes, by device, dtype and network."""

import dataclasses

import jax
import pytest

from tests import experiments
from vit_jax import checks
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError
from vit_jax.models import attention_key
from vit_jax.training import attention_kernel, experiment, summary

BF16 = {"model__dtype": "bfloat16"}


@dataclasses.dataclass(frozen=True)
class Device:
  """A device as jax describes it."""

  platform: str
  device_kind: str
  compute_capability: str | None = None


H100 = Device("gpu", "NVIDIA H100 80GB HBM3", "9.0")
A100 = Device("gpu", "A100-SXM4-40GB", "8.0")
V100 = Device("gpu", "Tesla V100-SXM2-16GB", "7.0")
MI300 = Device("gpu", "AMD Instinct MI300X", "gfx942")
V5E = Device("tpu", "TPU v5 lite")
CPU = Device("cpu", "cpu")
# Of a topology that is compiled for: jax tells no capability.
ABSENT_H100 = dataclasses.replace(H100, compute_capability=None)


def settled(device, **changes):
  config = attention_kernel.settled(experiments.config(**changes), device)
  return attention_key.value(config.model)


@pytest.mark.parametrize("device", [H100, A100, ABSENT_H100])
def test_auto_is_cudnn_on_nvidia_in_bfloat16(device):
  assert settled(device, **BF16) == "cudnn"
  assert settled(device) == "xla"


@pytest.mark.parametrize("device", [V100, MI300, V5E, CPU])
def test_auto_is_xla_elsewhere(device):
  assert settled(device, **BF16) == "xla"


@pytest.mark.parametrize(
  "changes",
  [
    {"model__num_heads": 8},  # Heads of 4 units.
    {
      "model__pos_embedding": "relative_bias",
      "model__pos_embedding_at": "every_layer",
    },
    {
      "objective__name": "mae",
      "objective__decoder_width": 48,
      "objective__decoder_num_heads": 4,  # Heads of 12 units.
      "objective__decoder_depth": 1,
    },
  ],
)
def test_auto_is_xla_where_cudnn_would_be_refused(changes):
  changes |= {**BF16, "train__preprocess": "decode", "evals": {}}
  assert settled(H100, **changes) == "xla"
  with pytest.raises(UserError, match="'cudnn'"):
    asked = experiments.config(model__attention="cudnn", **changes)
    checks.check(asked)


@pytest.mark.parametrize("attention", ["xla", "pallas", "flash"])
def test_what_is_asked_for_stays(attention):
  assert settled(H100, **BF16, model__attention=attention) == attention


@pytest.mark.parametrize("device", [V100, MI300, V5E, CPU])
def test_cudnn_that_is_not_there_names_key_value_and_remedy(device):
  with pytest.raises(UserError) as error:
    settled(device, **BF16, model__attention="cudnn")
  said = str(error.value)
  assert "config.model.attention = 'cudnn' needs an NVIDIA GPU" in said
  assert f"the device is {device.device_kind};" in said
  assert "config.model.attention='xla'" in said
  assert "config.allow_change='model.attention'" in said


def test_the_image_tower_of_two_towers_is_what_chooses():
  model = {"name": "two_towers", "dtype": "bfloat16"}
  objective = {"name": "contrastive"}
  config = resolve.resolve(
    {"total_steps": 1, "model": model, "objective": objective}
  )
  chosen = attention_kernel.settled(config, H100)
  assert chosen.model.image.attention == "cudnn"
  assert attention_key.name(config.model) == "model.image.attention"


@pytest.mark.parametrize(
  "attention, settled", [("auto", "xla"), ("pallas",) * 2]
)
def test_a_swin_has_no_kernel_on_gpus(attention, settled):
  model = {"name": "swin", "variant": "T", "dtype": "bfloat16"}
  model["attention"] = attention
  config = resolve.resolve({"total_steps": 1, "model": model})
  chosen = attention_kernel.settled(config, H100)
  assert chosen.model.attention == settled


def test_networks_without_a_choice_are_left_alone():
  config = experiments.config(**experiments.RESNET)
  assert attention_key.value(config.model) is None
  assert attention_kernel.settled(config, H100) == config


def test_an_experiment_has_a_settled_config_and_its_lines_say_which():
  parts = experiments.build()
  assert schema.Config().model.attention == "auto"
  assert parts.config.model.attention == "xla"
  text = "\n".join(summary.lines(parts, {}))
  assert "attention by plain products (config.model.attention = 'xla')" in text
  described = resolve.dump(parts.config)
  assert '"attention": "xla"' in described


def test_an_experiment_settles_it_for_the_devices_of_its_mesh(monkeypatch):
  seen = []

  def settles(config, device):
    seen.append(device)
    return attention_key.changed(config, "xla")

  monkeypatch.setattr(attention_kernel, "settled", settles)
  config = experiments.config()
  (last,) = jax.devices()[-1:]
  mesh = jax.sharding.Mesh([[[last]]], ("data", "fsdp", "tensor"))
  experiment.build(config, experiments.facts(config), mesh)
  assert seen == [last]
