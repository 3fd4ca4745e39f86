"""Masked patch prediction: appendix B.1.2 of arXiv 2010.11929."""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from PIL import Image

import vit_jax
from tests import experiments
from tests.models import networks
from vit_jax import convert, records, rngs, trees
from vit_jax.config import defaults, named_sections, schema
from vit_jax.data import facts, features
from vit_jax.errors import UserError
from vit_jax.evaluate import evaluate
from vit_jax.models import build as models_build
from vit_jax.objectives import build, patches
from vit_jax.objectives.masked_patch import objective as masked_patch
from vit_jax.paper import cost
from vit_jax.pretrained import fitting, reading
from vit_jax.train import train

RNGS = functools.partial(rngs.stream, 0, step=5)
NUM_PATCHES, NUM_CORRUPTED = 16, 8


def config(preprocess="decode|resize|keep('image')", model=None, **objective):
  return schema.Config(
    total_steps=10,
    model=named_sections.section(
      "model",
      variant="Ti/8",
      width=16,
      depth=2,
      num_heads=2,
      mlp_dim=32,
      image_size=32,
      **(model or {}),
    ),
    train=schema.Train(batch_size=8, preprocess=preprocess),
    objective=named_sections.section(
      "objective", name="masked_patch", **objective
    ),
  )


def built(config):
  """The objective, and the spec of its batches."""
  found = facts.declare(config, num_classes=5, num_examples=None)
  return build.build(config, found, 10), found.features.batch_spec(8)


def objective_of(**keys):
  return built(config(**keys))[0]


def check(config):
  build.check(config, features.check(config))


def batch():
  rng = np.random.default_rng(0)
  pixels = rng.integers(0, 256, (8, 32, 32, 3))
  return {"image": jnp.asarray(pixels, jnp.uint8)}


def params_of(objective):
  """Parameters whose head and mask token are large enough to be seen."""
  params, state = jax.jit(objective.init)(jax.random.key(0))
  assert state == {}
  keys = jax.random.split(jax.random.key(1))
  head = params["patch_head"]
  kernel = jax.random.normal(keys[0], head["kernel"].shape)
  token = jax.random.normal(keys[1], params["mask_token"].shape)
  return {
    **params,
    "patch_head": {**head, "kernel": kernel},
    "mask_token": token,
  }


def prepared_by(objective):
  return jax.jit(lambda batch: objective.prepare(batch, RNGS))(batch())


def loss_of(objective, params, batch):
  loss = jax.jit(lambda p, b: objective.loss(p, {}, {}, b, RNGS, 0))
  return loss(params, batch)


@functools.cache
def drawn(num_images=2000):
  draw = jax.jit(
    functools.partial(
      masked_patch.draw,
      num_images=num_images,
      num_patches=NUM_PATCHES,
      num_corrupted=NUM_CORRUPTED,
    )
  )
  corrupted, source = draw(jax.random.key(0))
  return np.asarray(corrupted), np.asarray(source)


def test_half_of_the_patches_of_every_image_are_corrupted():
  corrupted, source = drawn()
  assert corrupted.shape == (2000, NUM_CORRUPTED)
  assert all(len(set(row)) == NUM_CORRUPTED for row in corrupted)
  left = np.ones(source.shape, bool)
  np.put_along_axis(left, corrupted, False, axis=1)
  own = np.broadcast_to(np.arange(NUM_PATCHES), source.shape)
  assert (source == own)[left].all()
  # Each patch as often as any other, within five standard deviations.
  times = np.bincount(corrupted.ravel(), minlength=NUM_PATCHES) / 2000
  assert np.abs(times - 0.5).max() < 5 * np.sqrt(0.25 / 2000)


def test_of_the_corrupted_eight_tenths_are_masked_and_a_tenth_moved():
  corrupted, source = drawn()
  source = np.take_along_axis(source, corrupted, axis=1)
  shares = {
    "mask": (source == masked_patch.MASK_TOKEN).mean(),
    "kept": (source == corrupted).mean(),
  }
  shares["other"] = 1 - sum(shares.values())
  for name, wanted in (("mask", 0.8), ("other", 0.1), ("kept", 0.1)):
    deviation = np.sqrt(wanted * (1 - wanted) / source.size)
    assert abs(shares[name] - wanted) < 5 * deviation, name


def test_any_other_patch_may_take_the_place():
  corrupted, source = drawn()
  source = np.take_along_axis(source, corrupted, axis=1)
  moved = (source != corrupted) & (source != masked_patch.MASK_TOKEN)
  distance = (source - corrupted)[moved] % NUM_PATCHES
  counts = np.bincount(distance, minlength=NUM_PATCHES)
  assert counts[0] == 0
  expected = moved.sum() / (NUM_PATCHES - 1)
  assert np.abs(counts[1:] - expected).max() < 5 * np.sqrt(expected)


def test_corruption_puts_embeddings_in_the_places_drawn():
  patches = jnp.arange(8.0).reshape(1, 4, 2)
  token = jnp.full((1, 1, 2), -5.0)
  found = masked_patch.corrupt(patches, token, jnp.array([[0, -1, 3, 3]]))
  assert found.tolist() == [[[0, 1], [-5, -5], [6, 7], [6, 7]]]


@pytest.mark.parametrize("pool", ["cls", "gap"])
def test_without_corruption_the_network_is_the_plain_one(pool):
  objective = objective_of(model={"pool": pool})
  params, image = params_of(objective), batch()["image"]
  model = models_build.create(
    config().model.model_copy(update={"pool": pool}), num_classes=None
  )
  own = jnp.broadcast_to(jnp.arange(NUM_PATCHES), (8, NUM_PATCHES))

  def features_of(model, image):
    patches = masked_patch.corrupt(
      model.embed_patches(image), params["mask_token"], own
    )
    return model.head(model.encode(model.add_prefix(patches)), pool="none")

  tokens = jax.jit(model.apply, static_argnames="method")(
    {"params": params}, image, method=features_of
  )
  feature = tokens[:, 0] if pool == "cls" else tokens.mean(axis=1)
  outputs = jax.jit(objective.outputs)(params, {"image": image})
  assert set(outputs) == {"pre_logits"}
  np.testing.assert_allclose(feature, outputs["pre_logits"], atol=1e-5)


def test_no_trace_of_a_masked_patch_reaches_the_prediction():
  """Of an image that is masked whole, the pixels make no difference."""
  objective = objective_of(mask_rate=1.0)
  params = params_of(objective)
  prepared = prepared_by(objective)
  masked = jnp.full_like(prepared["source"], masked_patch.MASK_TOKEN)

  def gradient(images):
    def loss(params):
      return objective.loss(
        params, {}, {}, {**prepared, "image": images, "source": masked}, RNGS, 0
      )[0]

    return jax.jit(jax.grad(loss))(params)["embedding"]["kernel"]

  assert not np.any(gradient(prepared["image"]))


@pytest.mark.parametrize(
  ("target", "loss"),
  [("mean_colour", np.log(512)), ("colours_4x4", np.log(512))],
)
def test_a_fresh_head_guesses(target, loss):
  objective = objective_of(target=target)
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  prepared = prepared_by(objective)
  found, (aux, metrics) = loss_of(objective, params, prepared)
  np.testing.assert_allclose(found, np.log(512), rtol=1e-5)
  assert aux == {} and set(metrics) == {"loss", "accuracy"}


def test_only_corrupted_patches_count():
  """The loss of a head of zeros is that of their pixels, by NumPy."""
  objective = objective_of(target="pixels")
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  prepared = prepared_by(objective)
  found, _ = loss_of(objective, params, prepared)
  pixels = np.asarray(patches.cut(prepared["image"], 8, 4))
  squares = np.square((pixels / 127.5 - 1).reshape(8, NUM_PATCHES, -1))
  squares = squares.mean(axis=2)
  corrupted = np.asarray(prepared["corrupted"])
  chosen = np.take_along_axis(squares, corrupted, axis=1)
  np.testing.assert_allclose(found, chosen.mean(), rtol=1e-5)
  assert abs(chosen.mean() - squares.mean()) > 1e-4


def test_micro_batches_average_to_the_whole_batch():
  objective = objective_of(model={"pool": "gap"})
  params = params_of(objective)
  prepared = prepared_by(objective)
  parts = [{name: x[i::2] for name, x in prepared.items()} for i in range(2)]
  whole, _ = loss_of(objective, params, prepared)
  halves = [loss_of(objective, params, part)[0] for part in parts]
  np.testing.assert_allclose(whole, np.mean(halves), rtol=1e-5)


@pytest.mark.parametrize(
  "preprocess", ["decode|resize", "decode|resize|keep('image')"]
)
def test_it_compiles_from_the_batch_spec_alone(preprocess):
  objective, spec = built(config(preprocess=preprocess))
  assert ("label" in spec) == ("keep" not in preprocess)

  def step(rng, batch):
    params, state = objective.init(rng)
    batch = objective.prepare(batch, RNGS)
    loss, (aux, _) = objective.loss(params, {}, state, batch, RNGS, 0)
    return loss, objective.after_update(state, params, aux, 0)

  loss, state = jax.eval_shape(
    step, jax.eval_shape(lambda: jax.random.key(0)), spec
  )
  assert loss.shape == () and loss.dtype == jnp.float32
  assert state == {}


def test_cost_is_that_of_the_body_and_of_the_corrupted_patches():
  of = config(target="colours_4x4")
  body = cost.computed_flops(
    of.model, num_classes=None, read_patches=NUM_CORRUPTED
  )
  head = 2 * NUM_CORRUPTED * 16 * (16 * 512)
  assert build.forward_flops(of, num_classes=1000) == body + head
  supervised = schema.Config(model=of.model)
  assert build.forward_flops(supervised, num_classes=10) == (
    cost.computed_flops(of.model, num_classes=10)
  )


@pytest.mark.parametrize(
  ("model", "objective", "message"),
  [
    ({"pool": "map"}, {}, 'config.model.pool = "map"'),
    ({"pool": "none"}, {}, 'config.model.pool = "none"'),
    ({"representation_size": "width"}, {}, "config.model.representation_size"),
    ({"name": "resnet", "variant": "R50x1"}, {}, "config.model.name"),
    ({"image_size": 31, "stem_blocks": (1,)}, {}, "config.model.image_size"),
    ({"variant": "Ti/6"}, {"target": "colours_4x4"}, "config.objective.target"),
  ],
)
def test_what_it_cannot_do_is_a_sentence(model, objective, message):
  with pytest.raises(UserError, match=message):
    check(
      schema.Config(
        model=named_sections.section("model", **model),
        objective=named_sections.section(
          "objective", name="masked_patch", **objective
        ),
      )
    )


def test_there_is_nothing_to_classify():
  evals = {"test": schema.ClassificationEval(type="classification")}
  with pytest.raises(UserError, match="config.evals.test .* no classifier"):
    check(config().model_copy(update={"evals": evals}))


def fewshot():
  entry = defaults.default_eval(type="fewshot", shots=(1,), num_seeds=1)
  entry.datasets.generated = defaults.default_fewshot_dataset(
    dataset=experiments.DATASET, preprocess="decode|resize"
  )
  return entry


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
  """The workdir of a short self-supervised run."""
  workdir = str(tmp_path_factory.mktemp("masked"))
  ran = experiments.config(
    objective__name="masked_patch", evals={"fewshot": fewshot()}
  )
  assert train(ran, workdir) == 0
  return workdir


@pytest.mark.slow
def test_a_run_learns_and_is_measured_by_its_features(pretrained):
  lines = records.read_lines(f"{pretrained}/metrics.jsonl")
  losses = [line["train/loss"] for line in lines if "train/loss" in line]
  assert len(losses) == 6 and losses[-1] < losses[0] == pytest.approx(
    np.log(512), rel=1e-3
  )
  assert any("train/accuracy" in line for line in lines)
  assert any("fewshot/generated/1shot" in line for line in lines)


def test_what_is_loaded_has_no_head(pretrained):
  model, params = vit_jax.load(pretrained)
  assert model.num_classes is None
  assert not {"head", "patch_head", "mask_token"} & set(params)
  images = np.zeros((1, 8, 8, 3), np.uint8)
  features = networks.apply(model, params, images)
  assert features.shape == (1, 32)


def test_its_evaluation_does_not_tell_of_what_predicts_patches(
  pretrained, caplog
):
  evaluate(reading.run_config(pretrained), pretrained)
  assert "mask_token" not in caplog.text


@pytest.mark.parametrize("name", ["masked.npz", "masked", "masked.stablehlo"])
def test_it_is_exported_without_what_predicts_patches(
  pretrained, tmp_path, name, caplog
):
  path = str(tmp_path / name)
  with caplog.at_level("INFO", "vit_jax"):
    convert.convert(pretrained, path)
  assert "mask_token is not part of the network" in caplog.text
  assert "patch_head is not part of the network" in caplog.text
  images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
  model, params = vit_jax.load(pretrained)
  expected = networks.apply(model, params, images)
  if name.endswith(".stablehlo"):
    data = bytearray((tmp_path / name).read_bytes())
    found = export.deserialize(data).call(images)
  else:
    model, params = vit_jax.load(path)
    assert model.num_classes is None
    found = networks.apply(model, params, images)
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_report_shows_the_loss_by_its_name_and_the_accuracy(pretrained):
  page = pathlib.Path(pretrained, "report", "index.html").read_text()
  assert "masked patch prediction, mean colour of 0.5 of the patches" in page
  assert "cross-entropy of labels" not in page
  assert "Accuracy" in page


def test_fine_tuning_takes_the_body_and_nothing_else(pretrained, tmp_path):
  tuned = experiments.config(total_steps=2, init_from=pretrained)
  tuned = tuned.model_copy(update={"init_without": ("head/.*",)})
  assert train(tuned, str(tmp_path)) == 0
  parts = experiments.build()
  fitted = fitting.fit(
    parts.abstract_state.params, reading.read(pretrained), tuned.model
  )
  assert not fitted.dropped
  assert set(fitted.fresh) == {"head/kernel", "head/bias"}
  source = dict(trees.named_leaves(reading.read(pretrained).params))
  for name, leaf in trees.named_leaves(fitted.params):
    np.testing.assert_array_equal(leaf, source[name])


@pytest.mark.slow
def test_it_may_start_from_a_supervised_network_too(tmp_path):
  supervised = experiments.config(total_steps=2, evals={})
  assert train(supervised, str(tmp_path / "first")) == 0
  masked = experiments.config(
    total_steps=2,
    objective__name="masked_patch",
    init_from=str(tmp_path / "first"),
    evals={},
  )
  assert train(masked, str(tmp_path / "second")) == 0


def test_images_without_labels_can_be_learned_from(tmp_path):
  rng = np.random.default_rng(0)
  lines = ["image,caption"]
  for number in range(16):
    pixels = rng.integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    lines.append(f"{number}.png,a picture")
  (tmp_path / "captions.csv").write_text("\n".join(lines))
  made = experiments.config(
    objective__name="masked_patch",
    train__preprocess="decode|resize",
    train__dataset="captions",
    data_dir=str(tmp_path),
    evals={},
  )
  assert train(made, str(tmp_path / "run")) == 0
