"""Linear probes by published protocols, from images to metrics."""

import dataclasses
import logging

import jax
import numpy as np
import pytest

from tests.evaluators.conftest import State
from tests.models.networks import random_params, tiny
from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data import sources, spec
from vit_jax.errors import UserError
from vit_jax.evaluators import probe_protocols, probe_training, split
from vit_jax.evaluators.trained_probe import TrainedProbe
from vit_jax.models import build
from vit_jax.models.features import features
from vit_jax.sharding import mesh as meshes

_FAST = {"epochs": 20, "train_batch_size": 32}


def _entry(protocol, **keys):
  return schema.LinearProbeEval(
    type="linear_probe", protocol=protocol, **(_FAST | keys)
  )


def _state(network, mesh):
  """Random parameters with a last norm that spreads the class tokens."""
  params = random_params(network)
  norm = params["Transformer"]["encoder_norm"]
  norm.update(scale=np.full_like(norm["scale"], 30), bias=0 * norm["bias"])
  params["embedding"]["kernel"] *= 5
  return State(jax.device_put(params, meshes.replicated(mesh)))


def _problem(num_examples, noise, seed=0):
  """Images of three classes in noise."""
  rng = np.random.default_rng(seed)
  centres = np.random.default_rng(7).uniform(0, 255, size=(3, 8, 8, 3))
  labels = np.arange(num_examples) % 3
  images = centres[labels] + rng.normal(0, noise, (num_examples, 8, 8, 3))
  return np.clip(images, 0, 255).astype(np.uint8), labels


@pytest.fixture
def probe(make_context, make_split, make_mesh):
  """probe(entry, ...) -> metrics of a network of random parameters."""

  def run(entry, *, num_devices=1, network=None, noise=20, swap_test=False):
    network = network or tiny(num_classes=None)
    mesh = make_mesh(num_devices)
    images, labels = _problem(90, noise)
    test_images, test_labels = _problem(70, noise, seed=1)
    if swap_test:
      test_labels = (test_labels + 1) % 3
    splits = (
      make_split(images, labels, shuffled=True, mesh=mesh),
      make_split(test_images, test_labels, shuffled=True, mesh=mesh),
    )
    config = schema.Config(model=build.config_of(network))
    context = make_context(
      config=config, mesh=mesh, outputs=_pre_logits(network)
    )
    evaluator = TrainedProbe(
      entry, probe_protocols.of(entry), {"toy": splits}, context
    )
    state = _state(network, mesh)
    with jax.transfer_guard("disallow"):
      found = evaluator.run(state, 5)
      assert found == evaluator.run(state, 6)
    return {k.removeprefix("linear_probe/toy/"): v for k, v in found.items()}

  return run


def _pre_logits(network):
  def outputs(params, batch):
    return features(network, params, batch["image"], ("pre_logits",))

  return outputs


@pytest.mark.parametrize(
  "protocol, keys",
  [
    ("dino", {"blocks": (2,), "learning_rates": (1.0,)}),
    (
      "dino",
      {"blocks": (1,), "average_patches": (True,), "learning_rates": (1.0,)},
    ),
    ("mae", {"learning_rates": (40.0,), "epochs": 60}),
  ],
)
def test_a_single_classifier_reports_its_accuracy_alone(protocol, keys, probe):
  metrics = probe(_entry(protocol, **keys))
  assert set(metrics) == {"top1"} and 0.9 < metrics["top1"] <= 1


_SWEEP = {
  "blocks": (1, 2),
  "learning_rates": (1e-3, 0.1, 1.0),
}


def test_a_sweep_reports_the_best_and_its_setting(probe, caplog):
  entry = _entry("dinov2", **_SWEEP)
  with caplog.at_level(logging.INFO):
    metrics = probe(entry, noise=120)
  assert set(metrics) == {"top1", "learning_rate", "blocks", "average_patches"}
  lines = [r for r in caplog.records if "on the test split" in r.getMessage()]
  assert len(lines) == 2 * 12  # The fixture runs it twice.
  start = "rate 0.001, last 1 layers, without patches: 0."
  assert lines[0].getMessage().startswith(start)
  accuracies = [line.args[1] for line in lines[:12]]
  assert metrics["top1"] == max(accuracies) > min(accuracies)
  first = lines[accuracies.index(max(accuracies))].args[0]
  assert dataclasses.asdict(first) == {
    key: metrics[key] for key in dataclasses.asdict(first)
  }
  alone = {
    "learning_rates": (metrics["learning_rate"],),
    "blocks": (int(metrics["blocks"]),),
    "average_patches": (bool(metrics["average_patches"]),),
  }
  again = probe(_entry("dinov2", **alone), noise=120)
  assert again["top1"] == pytest.approx(metrics["top1"], abs=1 / 70)


def test_the_best_is_that_of_the_test_split_as_published(probe):
  keys = {"blocks": (1,), "learning_rates": (1e-6, 1.0)}
  assert probe(_entry("dinov2", **keys))["learning_rate"] == 1.0
  # What learns least is best at labels that are wrong.
  metrics = probe(_entry("dinov2", **keys), swap_test=True)
  assert metrics["learning_rate"] == 1e-6


def test_devices_change_nothing(probe):
  entry = _entry("dinov2", **_SWEEP)
  alone, divided = (
    probe(entry, noise=120),
    probe(entry, noise=120, num_devices=4),
  )
  assert alone["top1"] == pytest.approx(divided["top1"], abs=1 / 70)


def test_a_network_without_a_class_token_is_probed_at_its_end(probe):
  entry = _entry("dino", blocks=(), learning_rates=(1.0,))
  network = tiny(num_classes=None, pool="gap")
  assert 0.9 < probe(entry, network=network)["top1"] <= 1


def test_labels_that_are_no_classes_are_refused(
  make_context, make_split, make_mesh
):
  images, labels = _problem(40, 20)
  splits = make_split(images, labels - 1), make_split(images, labels)
  network = tiny(num_classes=None)
  entry = _entry("mae", warmup_epochs=1)
  evaluator = TrainedProbe(
    entry,
    probe_protocols.of(entry),
    {"toy": splits},
    make_context(outputs=_pre_logits(network)),
  )
  with pytest.raises(UserError, match="config.evals.test: Label -1 is outside"):
    evaluator.run(_state(network, make_mesh()), 5)


def test_an_error_that_is_not_of_the_examples_stays_what_it_is(
  probe, monkeypatch
):
  """Of another process that was lost, say, which jax tells as a ValueError."""
  error = ValueError("UNKNOWN: Gloo AllReduce failed: Connection closed")

  def fail(*unused, **named):
    raise error

  monkeypatch.setattr(probe_training.Trainer, "fit", fail)
  with pytest.raises(ValueError) as left:
    probe(_entry("mae", warmup_epochs=1))
  assert left.value is error


_DATA = "generated:classes=3,size=8,examples=200"


@pytest.fixture
def generated(make_mesh, make_context):
  """generated(entry, num_devices) -> metrics on generated images."""

  def run(entry, num_devices=2):
    mesh = make_mesh(num_devices)
    network = tiny(num_classes=None)
    config = schema.Config(model=build.config_of(network))
    context = make_context(
      config=config, mesh=mesh, outputs=_pre_logits(network)
    )
    train, test = (
      split.Split(
        key="config.evals.test",
        source=sources.open_source(_DATA, name, data_dir=None),
        num_classes=3,
        max_labels=1,
        class_names=None,
        preprocess=spec.parse("decode", 8),
        batch_size=16,
        mesh=mesh,
      )
      for name in ("train", "test")
    )
    evaluator = TrainedProbe(
      entry, probe_protocols.of(entry), {"toy": (train, test)}, context
    )
    return evaluator.run(_state(network, mesh), 5)

  return run


def test_augmented_images_train_too(generated):
  keys = {"blocks": (1, 2), "learning_rates": (1.0, 4.0), "epochs": 20}
  plain = generated(_entry("dinov2", **keys))
  entry = _entry("dinov2", **keys, augment="decode|inception_crop|flip_lr")
  augmented = generated(entry)
  assert augmented == generated(entry)
  for found in (plain, augmented):
    assert 0.5 < found["linear_probe/toy/top1"] <= 1
  # Ops that change nothing leave nothing but another order.
  still = generated(_entry("dinov2", **keys, augment="decode"))
  top1 = still["linear_probe/toy/top1"]
  assert top1 == pytest.approx(plain["linear_probe/toy/top1"], abs=0.1)


def test_a_batch_of_augmented_images_divides_over_the_devices(generated):
  entry = _entry("mae", augment="decode", epochs=2, warmup_epochs=1)
  entry = entry.model_copy(update={"train_batch_size": 30})
  assert 0 <= generated(entry, 4)["linear_probe/toy/top1"] <= 1


_MODEL = build.config_of(tiny())


@pytest.mark.parametrize(
  "keys, message",
  [
    (
      {"protocol": "logistic", "epochs": 3},
      "epochs = 3 is not read by .*'mae'",
    ),
    (
      {"protocol": "logistic", "augment": "decode"},
      "augment = 'decode' is not",
    ),
    ({"l2_sweep": (1.0,)}, r"l2_sweep = \(1.0,\) is not read by .*'dino'"),
    ({"learning_rates": ()}, r"learning_rates = \(\) must be different"),
    ({"learning_rates": (1.0, 1.0)}, "learning_rates .* must be different"),
    ({"blocks": (1, 1)}, r"blocks = \(1, 1\) must be different numbers"),
    ({"average_patches": ()}, r"average_patches = \(\) must be different"),
    ({"protocol": "mae", "epochs": 10}, "warmup_epochs = 10 leaves nothing of"),
    (
      {"blocks": (4,)},
      r"blocks = \(4,\) takes .* no more than 3 layers, not 4",
    ),
    ({"protocol": "dinov2"}, r"blocks = \(1, 4\) takes"),
    (
      {"blocks": (), "average_patches": (True,)},
      r"average_patches = \(True,\) joins .* set config.evals.p.blocks=\(1,\)",
    ),
    (
      {"blocks": (1,), "representation": "logits"},
      r"representation = 'logits' is not read where .*blocks=\(\) to use it",
    ),
    ({"blocks": (1,), "augment": "decode|flip"}, "config.evals.p.augment"),
    (
      {"blocks": (1,), "augment": "decode|keep('image')"},
      "drops the labels that a probe learns",
    ),
    ({"blocks": (1,), "augment": "decode|resize(9)"}, "evals.p.augment .* 9 x"),
  ],
)
def test_bad_keys_are_named(keys, message):
  entry = schema.LinearProbeEval(
    type="linear_probe", **({"protocol": "dino"} | keys)
  )
  config = schema.Config(model=_MODEL, evals={"p": entry})
  with pytest.raises(UserError, match=message):
    probe_protocols.check("p", entry, config)


def test_a_network_without_class_tokens_is_refused_by_name():
  entry = schema.LinearProbeEval(type="linear_probe", protocol="dino")
  model = build.config_of(tiny(pool="gap"))
  config = schema.Config(model=model, evals={"p": entry})
  with pytest.raises(UserError, match=r"no class token .*\.blocks=\(\) its"):
    probe_protocols.check("p", entry, config)


@pytest.mark.parametrize("protocol", ["dino", "dinov2", "mae"])
def test_published_protocols_pass(protocol):
  entry = schema.LinearProbeEval(type="linear_probe", protocol=protocol)
  config = schema.Config(evals={"p": entry})
  probe_protocols.check("p", entry, config)
  counts = {"dino": 1, "dinov2": 52, "mae": 1}
  assert len(probe_protocols.of(entry).settings) == counts[protocol]
  np.testing.assert_allclose(probe_protocols.of(entry).rate_factor(16384), 64)


def _words(protocol, **keys):
  entry = schema.LinearProbeEval(type="linear_probe", protocol=protocol, **keys)
  kind = registry.EVALUATORS.get("linear_probe")
  titles = [column.title for column in kind.columns(entry)]
  return kind.protocol("p", entry, schema.Config()), titles


def test_the_report_says_how_it_was_trained_and_chosen():
  text, titles = _words("dino")
  assert titles == ["top-1, %"]
  assert text == (
    "DINO's protocol: a linear layer on the frozen class tokens of the last 4"
    " layers, joined, of images of the whole training split is trained for 100"
    " epochs by SGD with momentum, batches of 1024, learning rate 0.001 x"
    " batch / 256 with cosine decay, and tested on the whole test split."
  )
  text, titles = _words("dinov2", learning_rates=(0.1, 0.2))
  assert len(titles) == 4
  assert "the last 1 or 4 layers, joined, with or without the mean of" in text
  assert "Of 8 such layers the one most accurate on the test split" in text
  text, _ = _words("mae", augment="decode|flip_lr")
  assert "pre_logits features of augmented images (decode|flip_lr)" in text
  assert "variance 1, is trained for 90 epochs by LARS" in text
  assert "after 10 epochs of warmup" in text
