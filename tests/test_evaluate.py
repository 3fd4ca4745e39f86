"""The evaluate command on checkpoints of every form."""

import dataclasses
import functools
import json
import pathlib
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from PIL import Image

from tests import clip_checkpoint, experiments, mask_folders
from vit_jax import convert, registry
from vit_jax.config import defaults, resolve
from vit_jax.configs import clip, zero_shot
from vit_jax.errors import UserError
from vit_jax.evaluate import evaluate, measure
from vit_jax.evaluators import build as evaluators_build
from vit_jax.models import build
from vit_jax.pretrained import inference, load, reading, save
from vit_jax.pretrained import workdir as run_writer
from vit_jax.sharding import mesh as meshes
from vit_jax.train import train

GOLDEN = pathlib.Path(__file__).parent / "golden"
EXACT = {"model__gelu": "exact"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """A run, and the metrics of its last evaluation."""
  workdir = tmp_path_factory.mktemp("run")
  assert train(experiments.config(total_steps=3, **EXACT), str(workdir)) == 0
  lines = (workdir / "metrics.jsonl").read_text().splitlines()
  evaluated = [json.loads(x) for x in lines if "eval/test/top1" in x]
  return str(workdir), evaluated[-1]


FORMS = {"model.npz": None, "model": None, "run": "workdir"}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_run_has_the_runs_metrics(finished, tmp_path, name):
  workdir, logged = finished
  path = str(tmp_path / name)
  convert.convert(workdir, path, to=FORMS[name])
  metrics = evaluate(experiments.config(**EXACT), path)
  # A published file does not say how many updates it has seen.
  assert metrics.pop("step", 3) == logged["step"] == 3
  assert ("step" in evaluate(experiments.config(**EXACT), path)) == (
    name == "run"
  )
  for key, value in metrics.items():
    assert value == pytest.approx(logged[key], rel=1e-5), key


def test_the_model_is_the_checkpoints_where_the_config_says_so(
  finished, tmp_path
):
  workdir, logged = finished
  path = str(tmp_path / "model.npz")
  convert.convert(workdir, path)
  other = experiments.config(
    model_from_init=True, model__depth=1, model__width=64, model__pool="gap"
  )
  for checkpoint in (workdir, path):
    metrics = evaluate(other, checkpoint)
    assert metrics["eval/test/loss"] == pytest.approx(
      logged["eval/test/loss"], rel=1e-5
    )


def _on_devices(monkeypatch, number):
  monkeypatch.setattr(
    meshes,
    "create_mesh",
    functools.partial(meshes.create_mesh, devices=jax.devices()[:number]),
  )


@pytest.mark.parametrize(("devices", "parts"), [(3, 1), (3, 8), (4, 8)])
def test_devices_need_not_divide_the_batch_of_the_training(
  finished, monkeypatch, devices, parts
):
  workdir, logged = finished
  config = experiments.config(train__accumulate_steps=parts, **EXACT)
  with monkeypatch.context() as patch:
    _on_devices(patch, devices)
    metrics = evaluate(config, workdir)
  assert metrics["eval/test/num_examples"] == 16
  for key, value in metrics.items():
    assert value == pytest.approx(logged[key], rel=1e-5), key


def test_every_evaluator_takes_devices_that_do_not_divide_the_batch(
  finished, monkeypatch
):
  workdir, _ = finished
  expected = evaluate(_frozen(**EXACT), workdir)
  with monkeypatch.context() as patch:
    _on_devices(patch, 3)
    found = evaluate(_frozen(**EXACT), workdir)
  assert found == expected


def test_a_checkpoint_of_another_model_is_a_table(finished):
  workdir, _ = finished
  with pytest.raises(UserError) as error:
    evaluate(experiments.config(model__width=64, **EXACT), workdir)
  assert "(32," in str(error.value) and "(64," in str(error.value)


def test_a_checkpoint_of_other_classes_is_refused(finished, tmp_path):
  workdir, _ = finished
  path = str(tmp_path / "other.npz")
  module, params = load.load(workdir, num_classes=9)
  params = jax.tree.map(np.asarray, params)
  save.save(path, module, params)
  with pytest.raises(UserError, match="is not of this model"):
    evaluate(experiments.config(**EXACT), path)


def test_a_checkpoint_without_a_head_is_refused_where_classes_are_asked_for(
  finished, tmp_path
):
  workdir, _ = finished
  path = str(tmp_path / "body.npz")
  module, params = load.load(workdir)
  params = jax.tree.map(np.asarray, dict(params))
  del params["head"]
  save.save(path, module.clone(num_classes=None), params)
  says = "body.npz has no head, and config.evals .*fewshot.*zero_shot.py"
  with pytest.raises(UserError, match=says):
    evaluate(experiments.config(model_from_init=True), path)


def _image_folder(root, train, test):
  """Images of one colour a class, with noise."""
  rng = np.random.default_rng(0)
  colours = {"cat": 40, "dog": 120, "ship": 200}
  for split, names in (("train", train), ("test", test)):
    for name in names:
      (root / split / name).mkdir(parents=True)
      for i in range(8):
        noise = rng.integers(-40, 40, (8, 8, 3))
        pixels = np.uint8(colours[name] + noise)
        Image.fromarray(pixels).save(root / split / name / f"{i}.png")


def test_folders_of_fewer_classes_are_matched_by_name(tmp_path):
  """'ship' is class 2 of the head, and 1 of a folder without dogs."""
  whole, part = tmp_path / "whole", tmp_path / "part"
  _image_folder(whole, ("cat", "dog", "ship"), ("cat", "ship"))
  shutil.copytree(whole, part)
  shutil.rmtree(part / "train" / "dog")

  def config(root):
    return experiments.config(
      train__dataset="folder", data_dir=str(root), total_steps=12, **EXACT
    )

  workdir = str(tmp_path / "run")
  assert train(config(whole), workdir) == 0
  settled = config(part).model_copy(update={"model_from_init": True})
  found = evaluate(settled, workdir)
  assert found == evaluate(config(whole), workdir)
  assert found["eval/test/top1"] > 0.6


def test_a_run_keeps_its_classes_whatever_may_change(tmp_path):
  """A folder of another name would give 'ship' the number of 'dog'."""
  root, workdir = tmp_path / "data", tmp_path / "run"
  _image_folder(root, ("cat", "dog", "ship"), ("cat", "ship"))

  def config(**changes):
    return experiments.config(
      train__dataset="folder", data_dir=str(root), **EXACT, **changes
    )

  assert train(config(total_steps=2), str(workdir)) == 0
  before = (workdir / "classes.json").read_text()
  (root / "train" / "dog").rename(root / "train" / "wolf")
  with pytest.raises(UserError, match="class 1 was 'dog' and is 'ship'"):
    train(
      config(total_steps=2, allow_change="dataset_fingerprint"), str(workdir)
    )
  assert (workdir / "classes.json").read_text() == before


def test_several_checkpoints_have_the_metrics_of_each_alone(
  finished, tmp_path, monkeypatch
):
  workdir, _ = finished
  untrained = str(tmp_path / "untrained.npz")
  module, params = load.load(workdir)
  params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), params)
  save.save(untrained, module, params)
  built, build = [], evaluators_build.build
  monkeypatch.setattr(
    evaluators_build,
    "build",
    lambda name, *others: built.append(name) or build(name, *others),
  )
  config = experiments.config(**EXACT)
  first, second = measure(config, [workdir, untrained])
  assert built == ["test"]  # The data are opened once.
  assert first.metrics == evaluate(config, workdir)
  assert second.metrics == evaluate(config, untrained)
  assert first.metrics["eval/test/loss"] != second.metrics["eval/test/loss"]
  # No published name has this width and depth.
  unnamed = "ViT of width 32, depth 2, patches of 4 pixels"
  assert (first.path, first.model, first.image_size) == (workdir, unnamed, 8)
  assert first.num_params == sum(map(np.size, jax.tree.leaves(params)))


def test_results_of_a_run_that_still_trains_carry_their_own_step(
  finished, tmp_path
):
  workdir, _ = finished
  going, later = tmp_path / "going", tmp_path / "later"
  convert.convert(workdir, str(going), to="workdir")
  source = inference.read(workdir)
  zeros = jax.tree.map(np.zeros_like, source.weights.params)
  weights = dataclasses.replace(source.weights, params=zeros)
  run_writer.write(later, inference.Inference(weights, step=5))
  config = experiments.config(**EXACT)
  found = measure(config, [workdir, str(going)])
  next(found)
  shutil.copytree(later / "checkpoints/5", going / "checkpoints/5")
  (subject,) = found
  step = subject.metrics["step"]
  assert subject.metrics == evaluate(config, f"{going}/checkpoints/{step}")
  assert subject.path == str(going)


def test_a_missing_checkpoint_is_noticed_before_the_first_is_measured(
  finished, tmp_path
):
  workdir, _ = finished
  for missing in ("other.npz", "other"):
    with pytest.raises(UserError, match=f"{missing}.* does not exist"):
      next(
        measure(experiments.config(**EXACT), [workdir, str(tmp_path / missing)])
      )


def test_every_type_of_evaluator_runs_on_a_checkpoint(finished, tmp_path):
  workdir, _ = finished
  mask_folders.make(tmp_path, side=8, num_train=4, num_test=2)
  config = experiments.config(**EXACT)
  changes = {
    "fewshot": {"shots": (1, 5)},
    "knn": {"neighbors": (1, 5)},
    "linear_probe": {"l2_sweep": (1e-3, 1e-1)},
  }
  built = defaults.as_config_dict(config)
  for kind, values in changes.items():
    built.evals[kind] = defaults.default_eval(type=kind, **values)
    built.evals[kind].datasets.toy = defaults.default_fewshot_dataset(
      dataset=experiments.DATASET, preprocess="decode|resize"
    )
  built.evals.pixels = defaults.default_eval(
    type="linear_segmentation", steps=2, warmup_steps=1
  )
  built.evals.pixels.datasets.toy = defaults.default_segmentation_dataset(
    directory=str(tmp_path)
  )
  metrics = evaluate(resolve.resolve(built), workdir)
  counted = ("miou", "pixel_accuracy", "class_accuracy", "num_examples")
  assert set(metrics) == {
    *(f"linear_segmentation/toy/{name}" for name in counted),
    *("step", "eval/test/top1", "eval/test/loss"),
    *("eval/test/num_examples", "knn/toy/k1", "knn/toy/k5"),
    *(f"fewshot/toy/{k}shot{s}" for k in (1, 5) for s in ("", "_std")),
    *("linear_probe/toy/top1", "linear_probe/toy/l2"),
  }


def _frozen(**changes):
  """A config without an evaluator that looks at the head."""
  built = defaults.as_config_dict(experiments.config(**changes))
  built.evals = {
    "knn": defaults.default_eval(type="knn", neighbors=(1, 5)),
  }
  built.evals.knn.datasets.toy = defaults.default_fewshot_dataset(
    dataset=experiments.DATASET, preprocess="decode|resize"
  )
  return resolve.resolve(built)


@pytest.mark.parametrize("model_from_init", [False, True])
@pytest.mark.parametrize("num_classes", [2, 9])
def test_a_head_that_nobody_looks_at_may_be_of_any_classes(
  finished, tmp_path, num_classes, model_from_init
):
  workdir, _ = finished
  config = _frozen(model_from_init=model_from_init, **EXACT)
  path = str(tmp_path / "other.npz")
  module, params = load.load(workdir, num_classes=num_classes)
  save.save(path, module, jax.tree.map(np.asarray, params))
  first, second = measure(config, [workdir, path])
  assert first.metrics.items() - {("step", 3)} == second.metrics.items()


def test_features_of_two_towers_are_those_of_the_image_tower(tmp_path):
  path, alone = str(GOLDEN / "huggingface_clip"), str(tmp_path / "image.npz")
  weights = reading.read(path)
  tower = registry.FAMILIES.get("two_towers").parts["image"]
  network = build.create(tower.take(weights.model), num_classes=None)
  params = {k: v for k, v in weights.params["image"].items() if k != "head"}
  save.save(alone, network, params)
  config = _frozen(model_from_init=True, model__image_size=32)
  (subject,), wanted = measure(config, [path]), evaluate(config, alone)
  found = subject.metrics
  assert set(found) == {"knn/toy/k1", "knn/toy/k5"} and found == wanted
  sizes = map(np.size, jax.tree.leaves(weights.params["image"]))
  assert subject.num_params == sum(sizes)


def test_metrics_are_in_the_order_of_the_evaluator(finished):
  config = defaults.as_config_dict(_frozen(**EXACT))
  config.evals.knn.neighbors = (1, 5, 10)
  found = evaluate(resolve.resolve(config), finished[0])
  assert list(found) == ["step", *(f"knn/toy/k{k}" for k in (1, 5, 10))]


def test_the_body_below_it_has_to_be_the_configs(finished):
  workdir, _ = finished
  with pytest.raises(UserError) as error:
    evaluate(_frozen(model__width=64, **EXACT), workdir)
  assert "(32," in str(error.value) and "(64," in str(error.value)


def run(*arguments, cwd):
  return subprocess.run(
    [sys.executable, "-m", "vit_jax.evaluate", *arguments],
    capture_output=True,
    text=True,
    cwd=cwd,
  )


@pytest.mark.slow
def test_the_command_compares_and_keeps_what_was_measured(
  finished, tmp_path, repo
):
  workdir, logged = finished
  step = f"{workdir}/checkpoints/2"
  flags = (f"--config={workdir}/config.json", f"--checkpoint={workdir}")
  output, report = tmp_path / "result.json", tmp_path / "compared.html"
  result = run(
    *flags,
    f"--checkpoint={step}",
    f"--output={output}",
    f"--report={report}",
    cwd=repo,
  )
  assert result.returncode == 0, result.stderr
  found = json.loads(output.read_text())
  assert list(found) == [workdir, step]
  assert found[workdir]["eval/test/loss"] == pytest.approx(
    logged["eval/test/loss"], rel=1e-5
  )
  assert (found[workdir]["step"], found[step]["step"]) == (3, 2)
  head, *rows, last = result.stdout.splitlines()
  assert "step 2" in head and len(rows) == len(found[step])
  assert last == f"report: {report}"
  assert "2 checkpoints compared" in report.read_text()

  # The second is of another model.
  other = str(tmp_path / "other.npz")
  module, params = load.load(workdir, num_classes=9)
  save.save(other, module, jax.tree.map(np.asarray, params))
  result = run(*flags, f"--checkpoint={other}", f"--output={output}", cwd=repo)
  assert result.returncode == 1
  assert "other.npz is not of this model" in result.stderr
  assert list(json.loads(output.read_text())) == [workdir]
  assert "eval/test/top1" in result.stdout


@pytest.mark.slow
def test_the_command_keeps_what_was_measured_before_a_damaged_one(
  finished, tmp_path, repo
):
  workdir, _ = finished
  damaged = tmp_path / "damaged"
  shutil.copytree(workdir, damaged)
  (damaged / "checkpoints/3/manifest.json").write_text("")
  output, report = tmp_path / "result.json", tmp_path / "compared.md"
  result = run(
    f"--config={workdir}/config.json",
    f"--checkpoint={workdir}",
    f"--checkpoint={damaged}",
    f"--output={output}",
    f"--report={report}",
    cwd=repo,
  )
  assert result.returncode == 1
  assert f"{damaged}/checkpoints/3 is damaged" in result.stderr
  assert "eval/test/top1" in result.stdout
  assert list(json.loads(output.read_text())) == [workdir]
  assert workdir in report.read_text()
  assert str(damaged) not in report.read_text()


@pytest.mark.parametrize(
  ("flags", "sentence"),
  [
    ((), "No checkpoint was named: give --checkpoint=PATH."),
    (("--checkpoint=",), "No checkpoint was named"),
    (
      ("--checkpoint=runs/a", "--checkpoint=./runs/a/"),
      "--checkpoint=runs/a was given more than once",
    ),
    (
      ("--checkpoint=a", "--report=out.pdf"),
      "--report=out.pdf must end in .html or .md",
    ),
    (
      ("--checkpoint=a", "--output=not/there/a.json"),
      "--output=not/there/a.json cannot be written: there is no directory",
    ),
    (
      ("--checkpoint=a", "--output=tests"),
      "--output=tests is a directory; name a file to write.",
    ),
  ],
)
def test_bad_flags_are_answered_at_once(repo, flags, sentence):
  result = run("--config=configs/quickstart.py", *flags, cwd=repo)
  assert result.returncode == 1
  assert f"error: {sentence}" in result.stderr
  assert "Traceback" not in result.stderr


def test_a_network_of_other_classes_without_names_is_doubted(tmp_path, caplog):
  _image_folder(tmp_path / "photos", ("cat", "dog"), ("cat", "dog"))
  config = experiments.config(
    train__dataset="folder", data_dir=str(tmp_path / "photos"), **EXACT
  )
  module = build.create(config.model, num_classes=5)
  images = np.zeros((1, 8, 8, 3), np.uint8)
  params = jax.jit(module.init)(jax.random.key(0), images)["params"]
  save.save(str(tmp_path / "five.npz"), module, params)
  settled = config.model_copy(update={"model_from_init": True})
  evaluate(settled, str(tmp_path / "five.npz"))
  assert "the data has 2 classes and the model 5" in caplog.text


def test_another_tokenizer_than_the_checkpoints_is_doubted(tmp_path, caplog):
  clip_checkpoint.save(tmp_path / "clip")
  config = zero_shot.get_config("smoke")  # Names 'bytes'.
  evaluate(resolve.resolve(config), str(tmp_path / "clip"))
  assert "The tokenizer bytes has 258 tokens" in caplog.text
  assert "given as --config.train.tokenizer=PATH" in caplog.text


def test_texts_have_the_tokenizer_of_the_checkpoint(tmp_path):
  built = zero_shot.get_config("smoke")
  built.train.tokenizer = None
  path = tmp_path / "clip"
  shutil.copytree(GOLDEN / "huggingface_clip", path)
  with pytest.raises(UserError, match="--config.train.tokenizer=PATH"):
    evaluate(resolve.resolve(built), str(path))
  tokenizer = GOLDEN / "tokenizers" / "huggingface_clip"
  for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copy(tokenizer / name, path)
  # It is that of a larger network, and refused as such.
  with pytest.raises(UserError, match="has 814 pieces, but vocab_size"):
    evaluate(resolve.resolve(built), str(path))


@pytest.mark.parametrize("tokenizer", ["bytes", None])
def test_a_classifier_is_not_evaluated_by_words(finished, tokenizer):
  workdir, _ = finished
  built = zero_shot.get_config("smoke")
  built.train.tokenizer = tokenizer
  says = "has no text tower.*classification, knn, fewshot or linear_probe"
  with pytest.raises(UserError, match=says):
    evaluate(resolve.resolve(built), workdir)
  # The config of another run has two towers, whatever the checkpoint is.
  built.model_from_init = False
  built.model = clip.get_config("smoke").model
  with pytest.raises(UserError, match=says):
    evaluate(resolve.resolve(built), workdir)
