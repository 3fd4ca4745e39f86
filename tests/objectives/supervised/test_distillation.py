"""A student that learns from labels and from a teacher."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import vit_jax
from tests.models import networks
from vit_jax import rngs
from vit_jax.config import named_sections, schema
from vit_jax.data import facts
from vit_jax.errors import UserError
from vit_jax.objectives import build

CLASSES = 5
SIDE = 8
RNGS = functools.partial(rngs.stream, 0, step=0)


def config(teacher, model=None, **objective):
  keys = dict(variant="Ti/4", width=16, depth=1, num_heads=2, mlp_dim=16)
  keys |= dict(image_size=SIDE, normalize="imagenet") | (model or {})
  return schema.Config(
    total_steps=10,
    model=named_sections.section("model", **keys),
    train=schema.Train(batch_size=6, preprocess="decode|resize"),
    objective=named_sections.section(
      "objective", teacher=str(teacher), **objective
    ),
  )


def built(config):
  found = facts.declare(
    config, num_classes=CLASSES, max_labels=1, num_examples=None
  )
  return build.build(config, found, 10)


@pytest.fixture
def vit(tmp_path):
  """A teacher of the student's own normalisation and size."""
  model = networks.tiny(normalize="imagenet")
  params = networks.random_params(model)
  vit_jax.save(str(tmp_path / "teacher.npz"), model, params)
  return tmp_path / "teacher.npz", model, params


@pytest.fixture
def resnet(tmp_path):
  """A teacher of another family, normalisation and size."""
  model = networks.tiny_resnet(image_size=SIDE)
  params = networks.random_params(model)
  vit_jax.save(str(tmp_path / "resnet.npz"), model, params)
  return tmp_path / "resnet.npz", model, params


@pytest.fixture
def batch():
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (6, SIDE, SIDE, 3), np.uint8)
  return {"image": jnp.asarray(images), "label": jnp.arange(6) % CLASSES}


def random_like(params, seed=3):
  rng = np.random.default_rng(seed)
  return jax.tree.map(
    lambda x: rng.standard_normal(x.shape).astype(np.float32) / 4, params
  )


def step(objective, batch, params=None):
  """Random parameters of the student, the loss and its metrics."""
  if params is None:
    params = random_like(objective.init(jax.random.key(0))[0])
  loss, (_, metrics) = jax.jit(
    lambda params, constants, batch: objective.loss(
      params, constants, {}, objective.prepare(batch, RNGS), RNGS, 0
    )
  )(params, objective.constants.params, batch)
  return params, float(loss), metrics


def log_softmax(logits, temperature=1.0):
  return special.log_softmax(np.asarray(logits, np.float64) / temperature, -1)


def divergence(kind, student, teacher, temperature):
  if kind == "hard":
    classes = np.asarray(teacher).argmax(1)
    return -np.take_along_axis(log_softmax(student), classes[:, None], 1).mean()
  ours = log_softmax(student, temperature)
  theirs = log_softmax(teacher, temperature)
  total = (np.exp(theirs) * (theirs - ours)).sum() * temperature**2
  # As released, torch's sum is divided by `numel()`, classes too.
  return total / (ours.size if kind == "soft" else len(ours))


def heads(params, images, **keys):
  """Logits of the student's two heads."""
  from vit_jax.models.layers.heads import HEADS

  model = networks.tiny(
    distillation="average", normalize="imagenet", depth=1, mlp_dim=16, **keys
  )
  _, sown = networks.apply(model, params, images, mutable=[HEADS])
  return sown[HEADS]["class"][0], sown[HEADS]["distillation"][0]


@pytest.mark.parametrize("kind", ["hard", "soft", "soft_batchmean"])
def test_the_loss_is_that_of_deit(vit, batch, kind):
  path, model, teacher = vit
  objective = built(
    config(
      path,
      {"distillation": "average"},
      distillation=kind,
      distillation_weight=0.3,
      distillation_temperature=3.0,
    )
  )
  params, loss, metrics = step(objective, batch)
  by_label, learned = heads(params, batch["image"])
  taught = networks.apply(model, teacher, batch["image"])
  label_loss = divergence("hard", by_label, np.eye(CLASSES)[batch["label"]], 1)
  wanted = divergence(kind, learned, taught, 3.0)
  assert metrics["distillation_loss"] == pytest.approx(wanted, rel=1e-4)
  assert metrics["label_loss"] == pytest.approx(label_loss, rel=1e-4)
  assert loss == pytest.approx(0.7 * label_loss + 0.3 * wanted, rel=1e-4)
  same = np.asarray(learned).argmax(1) == np.asarray(taught).argmax(1)
  assert metrics["teacher_agreement"] == pytest.approx(same.mean())


def test_a_student_with_one_head_learns_both_with_it(vit, batch):
  path, model, teacher = vit
  objective = built(config(path, distillation="soft_batchmean"))
  params, _, metrics = step(objective, batch)
  student = objective.outputs(params, batch)["logits"]
  taught = networks.apply(model, teacher, batch["image"])
  wanted = divergence("soft_batchmean", student, taught, 1.0)
  assert metrics["distillation_loss"] == pytest.approx(wanted, rel=1e-4)


def test_a_teacher_of_another_family_sees_pixels_as_it_learned_to(
  resnet, batch
):
  path, model, teacher = resnet
  mixed = dict(mixup_alpha=0.8, distillation="soft_batchmean")
  objective = built(config(path, {"distillation": "average"}, **mixed))
  params, _, metrics = step(objective, batch)
  prepared = objective.prepare(batch, RNGS)["image"]
  mean = 255 * np.array([0.485, 0.456, 0.406])
  deviation = 255 * np.array([0.229, 0.224, 0.225])
  pixels = np.asarray(prepared) * deviation + mean
  pixels = np.float32((pixels - 127.5) / 127.5)
  taught = networks.apply(model, teacher, pixels)
  _, learned = heads(params, prepared)
  wanted = divergence("soft_batchmean", learned, taught, 1.0)
  assert metrics["distillation_loss"] == pytest.approx(wanted, rel=1e-3)


def test_images_are_brought_to_the_teachers_size(tmp_path, batch):
  model = networks.tiny(normalize="imagenet", image_size=16)
  teacher = networks.random_params(model)
  vit_jax.save(str(tmp_path / "large.npz"), model, teacher)
  objective = built(
    config(tmp_path / "large.npz", distillation="soft_batchmean")
  )
  params, _, metrics = step(objective, batch)
  mean = 255 * np.array([0.485, 0.456, 0.406], np.float32)
  deviation = 255 * np.array([0.229, 0.224, 0.225], np.float32)
  images = (np.asarray(batch["image"], np.float32) - mean) / deviation
  images = jax.image.resize(images, (6, 16, 16, 3), "bilinear")
  taught = networks.apply(model, teacher, images)
  student = objective.outputs(params, batch)["logits"]
  wanted = divergence("soft_batchmean", student, taught, 1.0)
  assert metrics["distillation_loss"] == pytest.approx(wanted, rel=1e-3)


def test_the_teacher_is_frozen_named_and_no_part_of_the_parameters(vit, batch):
  path, _, teacher = vit
  objective = built(config(path))
  assert list(objective.constants.digests) == [str(path)]
  params, _, _ = step(objective, batch)
  gradient = jax.grad(
    lambda constants: objective.loss(params, constants, {}, batch, RNGS, 0)[0],
    allow_int=True,
  )(objective.constants.params)
  assert not any(np.any(leaf) for leaf in jax.tree.leaves(gradient))
  assert jax.tree.structure(teacher) == jax.tree.structure(
    objective.constants.params
  )


def test_the_forward_pass_of_the_teacher_is_counted_once(vit):
  path, model, _ = vit
  plain = build.forward_flops(
    config(path).model_copy(
      update={"objective": named_sections.section("objective")}
    ),
    num_classes=CLASSES,
  )
  taught = build.forward_flops(config(path), num_classes=CLASSES)
  teacher = build.forward_flops(
    schema.Config(total_steps=1, model=named_sections.section(
      "model", variant="Ti/4", width=16, depth=3, num_heads=2, mlp_dim=24,
      image_size=SIDE,
    )), num_classes=CLASSES,
  )  # fmt: skip
  assert 3 * (taught - plain) == pytest.approx(teacher, abs=3)


def test_a_teacher_of_other_classes_is_refused_with_both_numbers(tmp_path):
  model = networks.tiny(7)
  vit_jax.save(
    str(tmp_path / "seven.npz"), model, networks.random_params(model)
  )
  with pytest.raises(UserError) as caught:
    built(config(tmp_path / "seven.npz"))
  message = str(caught.value)
  assert "config.objective.teacher" in message
  assert "7 classes" in message and "has 5" in message


def test_a_missing_teacher_is_named(tmp_path):
  with pytest.raises(UserError, match="config.objective.teacher.*not exist"):
    built(config(tmp_path / "nothing.npz"))


def test_the_report_names_the_teacher(vit):
  path, _, _ = vit
  found = build.describe(config(path, distillation="soft"))
  assert "at temperature 1" in found["distillation"]
  assert str(path) in found["distillation"]


@pytest.mark.parametrize(
  ("names", "words"),
  [
    ("abcde", ()),
    ("abxde", ()),
    ("vwxyz", ("v, w, x", "a, b, c")),
    ("bacde", ("'a' is class 1 there and class 0 here",)),
    (None, ()),
  ],
)
def test_a_teacher_of_classes_with_other_names_is_doubted(
  names, words, vit, tmp_path, caplog
):
  _, model, params = vit
  names = names and list(names)
  vit_jax.save(str(tmp_path / "x.npz"), model, params, class_names=names)
  found = facts.declare(
    config(tmp_path / "x.npz"),
    num_classes=CLASSES,
    max_labels=1,
    num_examples=None,
    class_names=list("abcde"),
  )
  build.build(config(tmp_path / "x.npz"), found, 10)
  assert ("config.objective.teacher" in caplog.text) == bool(words)
  assert all(word in caplog.text for word in words)
