import subprocess
import sys

import pytest

from vit_jax.data import sources
from vit_jax.errors import UserError


@pytest.mark.parametrize(
  "name",
  [
    "folder",
    "captions",
    "webdataset:cc3m-{000..331}.tar",
    "webdataset:gs://bucket/{train,val}/0.tar",
    "webdataset:shards/*.tar",
    "datasets:ylecun/mnist",
    "datasets:owner/name@main:config",
    "datasets:owner/name:config@v1.0",
    "datasets:../data/photos",
    "digits",
    "generated:",
    "generated:classes=10,size=32",
    "generated",
    "imagenet2012",
    "cifar10:3.0.2",
    "imagenet2012_corrupted/gaussian_noise_1:3.1.0",
  ],
)
def test_known_forms_of_names_pass(name):
  sources.check(name)


@pytest.mark.parametrize(
  "name, message",
  [
    ("", "'' is not the name of a dataset"),
    ("my data", "'my data' is not the name of a dataset"),
    ("generate:classes=3", "Did you mean 'generated'?"),
    ("folder:DIR", "'folder:links=anywhere' to follow"),
    ("captions:DIR", "'captions' takes no arguments"),
    ("webdataset", "webdataset: does not name tar files"),
    ("datasets:", "datasets: names no dataset; write one of the hub"),
    ("datasets:gs://a/b", "datasets:gs://a/b is in a bucket"),
    ("generated:classes=ten", "'classes=ten' is not an argument"),
    ("cifar10:3", "is not the name of a dataset"),
  ],
)
def test_other_names_are_sentences(name, message):
  with pytest.raises(UserError, match=message.replace("?", r"\?")):
    sources.check(name)


def test_missing_dataset_says_where_it_looked_and_what_to_run(tmp_path):
  (tmp_path / "mnist/3.0.1").mkdir(parents=True)
  for file in ("dataset_info.json", "features.json"):
    (tmp_path / "mnist/3.0.1" / file).write_text("{}")
  with pytest.raises(UserError) as error:
    sources.open_source("cifar10", "train", data_dir=str(tmp_path))
  assert str(error.value) == (
    f"Dataset 'cifar10' is not in {tmp_path} (which has mnist:3.0.1). Prepare"
    f" it with: python -m vit_jax.prepare cifar10 --data_dir={tmp_path}"
  )


def test_names_are_checked_without_numerical_libraries():
  script = (
    "import sys; from vit_jax.data import sources;"
    "sources.check('generated:classes=3'); sources.check('cifar10');"
    "sources.check('datasets:ylecun/mnist');"
    "print(*{'jax', 'tensorflow', 'tensorflow_datasets', 'datasets', 'pyarrow'}"
    " & set(sys.modules))"
  )
  run = subprocess.run(
    [sys.executable, "-c", script], capture_output=True, text=True, check=True
  )
  assert run.stdout.strip() == ""


@pytest.mark.parametrize(
  ("dataset", "data_dir", "expected"),
  [
    ("imagenet2012", "data", ""),
    ("digits", "data", ""),
    ("generated:classes=2,size=8", None, ""),
    ("datasets:ylecun/mnist", None, ""),
    ("datasets:ylecun/mnist@main:small", "data", ""),
    ("folder", "data", "{here}/data"),
    ("folder:labels=none", "{here}/link", "{here}/data"),
    ("captions", "gs://bucket/captions/", "gs://bucket/captions"),
    ("csv:labels.csv", None, "{here}/labels.csv"),
    ("csv:labels.csv", "data", "{here}/data/labels.csv"),
    ("webdataset:{a,b}.tar", "link", "{here}/data/{a,b}.tar"),
    ("webdataset:{here}/link/*.tar", "other", "{here}/data/*.tar"),
    ("webdataset:s3://bucket/a.tar", "data", "s3://bucket/a.tar"),
    ("datasets:saved", None, "{here}/saved"),
    ("datasets:saved:small", "{here}", "{here}/saved:small"),
  ],
)
def test_files_have_one_place_wherever_the_process_is(
  dataset, data_dir, expected, tmp_path, monkeypatch
):
  here = tmp_path.resolve()
  for name in ("data", "saved"):
    (here / name).mkdir()
  (here / "link").symlink_to("data")
  monkeypatch.chdir(here)

  def filled(text):
    return text and text.replace("{here}", str(here))

  found = sources.location(filled(dataset), filled(data_dir))
  assert found == filled(expected)
