"""Downloads a dataset, builds one from your files, or checks one.

Examples:
  python -m vit_jax.prepare cifar10 --data_dir=DIR
  python -m vit_jax.prepare flowers --data_dir=DIR --from=photos
  python -m vit_jax.prepare imagenet21k --data_dir=DIR --from=synset_tars
  python -m vit_jax.prepare jft_like --data_dir=DIR --from=lists \\
      --image_root=images --class_names=classes.txt
  python -m vit_jax.prepare folder --data_dir=DIR --check
  python -m vit_jax.prepare tokenizer --from=captions.txt --output=DIR
  python -m vit_jax.prepare tokenizer --images=imagenet2012 \\
      --checkpoint=runs/dino --tokens=8192 --output=tokens.npz

A TFDS dataset that is not in the data directory is downloaded and prepared in
ArrayRecord format; existing TFRecord files are indexed, and so are tar files in
webdataset format. 'digits' is written; folders of images or captions and
generated data need no preparation.

With --from, a dataset of that name is written in the same format, in shuffled
order, from PATH, which is one of the following:

  an image folder  PATH/{train,val,valid,validation,test}/CLASS/*.{jpg,png,...};
                   with --unlabelled, images at any depth, without classes
  tar files        PATH/CLASS.tar, or PATH/SPLIT/CLASS.tar
  a dataset        'datasets:NAME_OR_DIR' or 'webdataset:PATTERN', as
                   config.train.dataset names it, captions included; with
                   --unlabelled, images only
  JSON lines       PATH, a .jsonl file, or PATH/SPLIT.jsonl; in each line
                   {"path": FILE, "label": CLASS} or
                   {"path": FILE, "labels": [CLASS, ...]}; CLASS: number or name

After a kill, the same command continues with the missing shards. --check
compares the checksums written with the files, then reads and decodes every
image and names those that fail. See docs/data.md.

'tokenizer' learns word pieces from captions: a .txt file with one per line, or
a .jsonl file of objects with "caption", "captions", "text" or "title"; see
docs/tokenizers.md. With --images, a dataset, it makes a tokenizer of patches
for BEiT by k-means of a network's patch features; see docs/beit.md.
"""

import contextlib
import logging
import os
import shlex
from collections.abc import Sequence

import numpy as np
from absl import flags

from vit_jax import command_line
from vit_jax.data import folder, sources, substitutes
from vit_jax.data.tfds import dataset_directory
from vit_jax.errors import UserError
from vit_jax.rundir.progress import CountProgress

_ONLY_FOR_TEXT = ("kind", "vocab_size", "length")
_ONLY_FOR_IMAGES = ("checkpoint", "tokens", "examples", "passes", "seed")
_ONLY_FOR_TOKENIZER = (*_ONLY_FOR_TEXT, *_ONLY_FOR_IMAGES, "images", "output")
_ONLY_FOR_FROM = (
  "image_root",
  "class_names",
  "unlabelled",
  "shards",
  "skip_bad",
)
_PUBLISHED_SIZES = {"bpe": 49_408, "sentencepiece": 32_000}

_logger = logging.getLogger(__name__)


def define_flags() -> None:
  flags.DEFINE_string(
    "data_dir",
    None,
    "Directory of datasets; for 'folder', the folder that contains train/. By"
    " default TFDS_DATA_DIR, then ~/tensorflow_datasets.",
  )
  flags.DEFINE_bool(
    "check", False, "Compare checksums; read and decode every image."
  )
  flags.DEFINE_string(
    "split",
    None,
    "Split to check, by default all; if the files of --from name no split,"
    " the name to write, by default train.",
  )
  flags.DEFINE_string(
    "image_key",
    "image",
    "Feature to check, or to read from --from=datasets:...",
  )
  flags.DEFINE_string(
    "label_key",
    None,
    "Feature to check, or to read from a dataset; by default label or labels.",
  )
  flags.DEFINE_string(
    "from",
    None,
    "Image folder, folder of tar files, JSON lines, datasets:NAME or"
    " webdataset:PATTERN.",
  )
  flags.DEFINE_string(
    "image_root",
    None,
    "Directory that contains the paths of JSON lines; by default that of the"
    " file.",
  )
  flags.DEFINE_string(
    "class_names",
    None,
    "File with the names of all classes, one per line, in the order of their"
    " labels; by default those found, sorted.",
  )
  flags.DEFINE_bool(
    "unlabelled",
    False,
    "Use only the images of --from, without classes and captions; those of a"
    " folder may be at any depth.",
  )
  flags.DEFINE_integer(
    "shards",
    None,
    "Files per split; by default one per 2048 images, at most 2048.",
    lower_bound=1,
    upper_bound=99_999,
  )
  flags.DEFINE_integer(
    "workers", os.cpu_count(), "Processes that write shards.", lower_bound=1
  )
  flags.DEFINE_bool(
    "skip_bad",
    False,
    "Leave out unreadable or undecodable images and the lost part of truncated"
    " tar files, and list them.",
  )
  flags.DEFINE_enum(
    "kind",
    None,
    ["bpe", "sentencepiece"],
    "Kind of tokenizer: bpe as CLIP, sentencepiece as SigLIP; by default bpe.",
  )
  flags.DEFINE_integer(
    "vocab_size",
    None,
    "Maximum number of word pieces; by default 49408 (bpe) or 32000.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "length",
    None,
    "Number of token ids per caption; by default 77 (bpe) or 64.",
    lower_bound=1,
  )
  flags.DEFINE_string(
    "output",
    None,
    "Directory for a tokenizer, or .npz file for one of patches.",
  )
  flags.DEFINE_string(
    "images", None, "Dataset from whose patches a tokenizer is made."
  )
  flags.DEFINE_string(
    "checkpoint", None, "Network whose patch features become tokens."
  )
  flags.DEFINE_integer(
    "tokens", None, "Number of patch tokens; by default 8192.", lower_bound=2
  )
  flags.DEFINE_integer(
    "examples",
    None,
    "Maximum number of images used; by default 10000.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "passes", None, "Passes over these images; by default 3.", lower_bound=1
  )
  flags.DEFINE_integer(
    "seed", None, "Seed for images and centres; by default 0.", lower_bound=0
  )


def main(argv: Sequence[str]) -> None:
  if len(argv) != 2:
    raise UserError(
      "Name one dataset, as in: python -m vit_jax.prepare cifar10"
      " --data_dir=DIR"
    )
  # We report a broken image in one sentence; TensorFlow would print a page.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  dataset = argv[1]
  if dataset == "tokenizer":
    if flags.FLAGS.images:
      _cluster_patches()
    else:
      _learn_tokenizer()
    return
  for name in _ONLY_FOR_TOKENIZER:
    if flags.FLAGS[name].value is not None:
      raise UserError(f"--{name} goes with 'tokenizer', not with {dataset!r}.")
  sources.check(dataset)
  image_key = flags.FLAGS.image_key
  label_key = flags.FLAGS.label_key
  if flags.FLAGS["from"].value:
    dataset, label_key = _build(dataset)
    image_key = "image"
  else:
    _raise_if_only_for_from()
    kind = dataset.partition(":")[0]
    if kind in ("folder", "captions") and flags.FLAGS.data_dir is None:
      raise UserError("Name the image folder with --data_dir=DIR.")
    print(_prepare(dataset, flags.FLAGS.data_dir))
  if flags.FLAGS.check:
    _check_files(dataset)
    _check_images(_open(dataset, image_key, label_key))


def _cluster_patches() -> None:
  from vit_jax.objectives.beit import centres, clustering

  given = flags.FLAGS
  _raise_if_given(_ONLY_FOR_TEXT, "captions, not with --images")
  checkpoint, output = _path(given.checkpoint), _path(given.output)
  if not checkpoint or not output or not output.endswith(".npz"):
    raise UserError(
      "Name the network and the tokenizer's file, as in: python -m"
      f" vit_jax.prepare tokenizer --images={given.images} --checkpoint=PATH"
      " --output=FILE.npz"
    )
  if os.path.exists(output):
    raise UserError(
      f"--output={output} is there already, and runs may need it; name another"
      " file."
    )
  chosen = {
    name: given[name].value
    for name in ("tokens", "examples", "passes", "seed")
    if given[name].value is not None
  }
  source = sources.open_source(
    given.images,
    given.split or "train",
    data_dir=given.data_dir,
    image_key=given.image_key,
    label_key=given.label_key or "label",
    captions=False,
  )
  with contextlib.closing(CountProgress()) as progress:
    found = clustering.cluster(source, checkpoint, show=progress.show, **chosen)
  centres.write(output, found)
  print(f"A tokenizer of {len(found.rows)} tokens is in {output}.")
  words = []
  if given.images != "imagenet2012":  # configs/beit.py already names that one.
    words = [f"--config.train.dataset={given.images}", "--config.evals={}"]
  if given.split:
    words.append(f"--config.train.split={given.split}")
  if given.data_dir:
    words.append(f"--config.data_dir={given.data_dir}")
  print("Learn from it with:")
  config = f"configs/beit.py:tokenizer={output}"
  print(f"  {_shell_command(config, [*words, '--workdir=runs/beit'])}")


def _learn_tokenizer() -> None:
  from vit_jax.tokenization import learn

  _raise_if_given(_ONLY_FOR_IMAGES, "--images=DATASET")
  source, output = _path(flags.FLAGS["from"].value), _path(flags.FLAGS.output)
  if not source or not output:
    raise UserError(
      "Name the captions and the directory of the tokenizer, as in: python -m"
      " vit_jax.prepare tokenizer --from=captions.txt --output=DIR"
    )
  kind = flags.FLAGS.kind or "bpe"
  size = flags.FLAGS.vocab_size or _PUBLISHED_SIZES[kind]
  learn.check_output(output)
  found = learn.learn(source, kind, size, flags.FLAGS.length)
  learn.write(found, output)
  print(
    f"A tokenizer of {found.vocab_size} pieces and length {found.length} is in"
    f" {output}."
  )
  print("Use it with:")
  print(f"  vit_jax.load_tokenizer({output!r})")
  print(f"  --config.train.tokenizer={shlex.quote(output)}")


def _raise_if_given(names: Sequence[str], wanted: str) -> None:
  for name in names:
    if flags.FLAGS[name].value is not None:
      raise UserError(f"--{name} goes with {wanted}.")


def _raise_if_only_for_from() -> None:
  for name in _ONLY_FOR_FROM:
    if flags.FLAGS[name].value:
      raise UserError(f"--{name} goes with --from=PATH, which was not given.")


def _build(dataset: str) -> tuple[str, str]:
  """Builds a dataset from files; returns its name and label key."""
  from vit_jax.data.building import build

  if sources.is_built_in(dataset):
    raise UserError(
      f"{dataset!r} is built in; give what is made by --from another name."
    )
  with contextlib.closing(CountProgress()) as progress:
    built = build.build(
      dataset,
      flags.FLAGS.data_dir,
      _path(flags.FLAGS["from"].value),
      split=flags.FLAGS.split,
      image_root=_path(flags.FLAGS.image_root),
      class_names=_path(flags.FLAGS.class_names),
      image_key=flags.FLAGS.image_key,
      label_key=flags.FLAGS.label_key or "label",
      unlabelled=flags.FLAGS.unlabelled,
      num_shards=flags.FLAGS.shards,
      num_workers=flags.FLAGS.workers,
      skip_unusable=flags.FLAGS.skip_bad,
      show=progress.show,
    )
  label_key = "labels" if built.max_labels > 1 else "label"
  there = "was ready" if built.was_there else "is ready"
  counts = ", ".join(f"{name} {n}" for name, n in built.splits.items())
  full_name = f"{built.name.name}/{built.name.version}"
  print(f"{full_name} {there} in {built.directory} as array_record: {counts}.")
  if built.num_ignored:
    print(f"{built.num_ignored} files were ignored that are not images.")
  if built.num_unusable:
    print(
      f"{built.num_unusable} images or parts of files were left out; they are"
      " listed in"
      f" {built.directory / build.UNUSABLE_FILE}."
    )
  if label_key == "labels":
    print(f"Images have up to {built.max_labels} labels, feature 'labels'.")
  print("Train on it with:")
  print(f"  {_train_command(built)}")
  return str(built.name), label_key


def _path(given: str | None) -> str | None:
  """Expands ~, which a shell does not do in --from=~/photos."""
  return None if given is None else os.path.expanduser(given)


def _train_command(built) -> str:
  """Returns a command that trains on a new dataset with shipped settings."""
  home = built.directory.parent.parent
  plain = dataset_directory.DatasetName(built.name.name)
  is_newest = dataset_directory.find(plain, home) == built.directory
  places = [f"--config.data_dir={home}", f"--workdir=runs/{built.name.name}"]
  words = [f"--config.train.dataset={plain if is_newest else built.name}"]
  if flags.FLAGS.unlabelled:
    if "train" not in built.splits:
      words.append(f"--config.train.split={next(iter(built.splits))}")
    words.append("--config.evals={}")
    return _shell_command("configs/dino.py", [*words, *places])
  if not built.max_labels:
    return _shell_command(f"configs/clip.py:data={built.name}", places)
  held_out = [s for s in ("test", "validation", "val") if s in built.splits]
  if "train" not in built.splits:
    first = next(iter(built.splits))
    words.append(f"--config.train.split={first}")
  elif not held_out:
    words.append("--config.train.split=train[:90%]")
  words.append(
    f"--config.evals.test.split={held_out[0] if held_out else 'train[90%:]'}"
  )
  if built.max_labels > 1:
    words.append("--config.train.label_key=labels")
    words.append("--config.evals.test.label_key=labels")
    words.append("--config.objective.loss=sigmoid")
    words.append("--config.objective.label_smoothing=0")
  return _shell_command("configs/finetune_folder.py", [*words, *places])


def _shell_command(config: str, words: Sequence[str]) -> str:
  words = [f"--config={config}", *words]
  return " ".join(["python -m vit_jax.train", *map(shlex.quote, words)])


def _prepare(dataset: str, data_dir: str | None) -> str:
  """Prepares a dataset and returns a line about it."""
  kind = dataset.partition(":")[0]
  if kind == "digits":
    from vit_jax.data.digits import source as digits

    return f"digits is ready in {digits.prepare(data_dir)}."
  if sources.is_built_in(dataset):
    source = _open(dataset, flags.FLAGS.image_key, flags.FLAGS.label_key)
    is_ready = {
      "datasets": "is ready",
      "webdataset": "is indexed",
    }.get(kind, "needs no preparation")
    contents = f"{source.num_examples} images"
    if source.num_classes is not None:
      contents += f" in {source.num_classes} classes"
    if "text" in source.features:
      contents += " with captions"
    return f"{dataset} {is_ready}: {contents}."
  from vit_jax.data.tfds import preparation

  return preparation.prepare(dataset, data_dir)


def _open(
  dataset: str, image_key: str, label_key: str | None
) -> sources.Source:
  """Opens the images, with their label key or one of the usual ones."""
  split = flags.FLAGS.split or "all"
  kind, _, arguments = dataset.partition(":")
  if kind == "folder":
    # The check finds all damaged files at once.
    return folder.scan(split, flags.FLAGS.data_dir, folder.check(arguments))
  problems = []
  keys = (label_key,) if label_key else ("label", "labels")
  options = {"data_dir": flags.FLAGS.data_dir, "image_key": image_key}
  for key in keys:
    try:
      return sources.open_source(dataset, split, label_key=key, **options)
    except UserError as error:
      problems.append(error)
  if kind == "datasets" and isinstance(problems[0], substitutes.UnusableError):
    # A run that learns classes does not need captions.
    found = sources.open_source(
      dataset, split, label_key=keys[0], captions=False, **options
    )
    if found.label:
      _logger.warning("Captions are left out: %s", problems[0])
      return found
  raise problems[0]


def _check_files(dataset: str) -> None:
  """Raises UserError naming every file that has changed."""
  if sources.is_built_in(dataset):
    return
  from vit_jax.data import checksums

  directory = dataset_directory.require(
    dataset_directory.DatasetName.parse(dataset),
    dataset_directory.resolve_data_dir(flags.FLAGS.data_dir),
  )
  files = checksums.read(directory)
  if files is None:
    print(f"No checksums were written in {directory}.")
    return
  with contextlib.closing(CountProgress()) as progress:
    checksums.verify(directory, files, progress.show)
  print(f"All {len(files)} files are as they were written.")


def _check_images(source: sources.Source) -> None:
  """Raises UserError naming every image that cannot be decoded."""
  from vit_jax.data import integrity

  problems = []
  ids = np.arange(source.num_examples)
  with contextlib.closing(CountProgress()) as progress:
    for num_checked, problem in integrity.unreadable(source, ids):
      if problem:
        problems.append(problem)
      progress.show("images", num_checked, source.num_examples)
  if problems:
    raise integrity.report(problems, source.num_examples, source.num_examples)
  print(f"All {source.num_examples} images can be read.")


if __name__ == "__main__":
  define_flags()
  command_line.run(main)
