"""The study of docs/captions_study.md: a small CLIP and a classifier compared.

  --config=configs/study_captions.py:run=supervised --config.data_dir=DIR
  --config=configs/study_captions.py:run=softmax --config.data_dir=DIR
  --config=configs/study_captions.py:run=sigmoid --config.data_dir=DIR
  --config=configs/study_captions.py:run=names --config.data_dir=NAMES
  --config=configs/study_captions.py:run=lit --config.data_dir=DIR \\
      --config.init_from=RUN

benchmarks/study_captions.py makes DIR from CIFAR-10: folders of images, and
captions that name an image's class and its colour, which is computed from its
pixels. NAMES has captions of the same images that name only the class, for a
run that otherwise equals `softmax`. The image tower is the plain ViT of
docs/families_study.md. All runs have the compute in which the supervised one
sees `seen` images, except `lit`: its text tower learns to match the frozen
image tower of the supervised run, for as many steps as that of `softmax`.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_retrieval_dataset,
  default_zeroshot_dataset,
)

RUNS = ("supervised", "softmax", "sigmoid", "names", "lit")
SEEN = 750_000  # Of the supervised ViT: 15 epochs.
BATCH_SIZE = 256
LENGTH = 12  # Tokens of a text; the longest caption has nine.
VOCAB_SIZE = 600
# Millions of multiply-adds of a forward pass, counting whole layers; a pair is
# an image and a text.
_PAIR = 4.93
MACS = {"supervised": 3.69, **dict.fromkeys(RUNS[1:], _PAIR)}
_VARIANT = "Ti/8"
_TOWER = {
  "width": 64,
  "depth": 4,
  "num_heads": 4,
  "mlp_dim": 256,
  "pool": "cls",
}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, run="supervised", seen=SEEN)
  arguments.check_choice("run", args.run, RUNS)
  config = default_config()
  config.log_every_steps = 20
  config.total_steps = max(1, round(args.seen / cost(args.run) / BATCH_SIZE))
  config.train.update(
    batch_size=BATCH_SIZE, preprocess="decode|simple_random_crop|flip_lr"
  )
  config.optimizer.update(name="adamw", weight_decay=0.05, grad_clip_norm=1.0)
  config.schedule.update(
    base_lr=2e-3, warmup_steps=config.total_steps // 20, decay="cosine"
  )
  config.checkpoint.every_steps = 500
  if args.run == "supervised":
    config.model.update(variant=_VARIANT, image_size=32, **_TOWER)
    config.train.dataset = "folder"
    config.evals.test = default_eval(
      type="classification", split="test", every_steps=500
    )
  else:
    _pairs(config, args.run)
  return smoke.shrink(config) if args.smoke else config


def cost(run: str) -> float:
  """Compute of an example, relative to one of the supervised run."""
  return MACS[run] / MACS["supervised"]


def _pairs(config: ml_collections.ConfigDict, run: str) -> None:
  """Two towers and their evaluators."""
  config.model.update(name="two_towers", variant=_VARIANT, image_size=32)
  config.model.embedding_size = 64
  config.model.update(image_projection="linear", text_projection="linear")
  config.model.image.update(name="vit", **_TOWER)
  config.model.text.update(width=64, depth=2, num_heads=4, mlp_dim=256)
  config.model.text.update(vocab_size=VOCAB_SIZE, length=LENGTH, pool="eot")
  config.model.update(scale_init=10.0, bias_init=None)
  config.objective.update(name="contrastive", loss="softmax", max_scale=100.0)
  if run == "sigmoid":
    config.objective.loss = "sigmoid"
    config.model.bias_init = -10.0
  config.train.dataset = "captions"
  config.train.preprocess = "decode|simple_random_crop|tokenize|flip_lr"
  if run == "lit":
    config.init_part = "image"
    config.optimizer.freeze = "image/.*"
    config.train.preprocess = "decode|resize|tokenize"
  config.train.tokenizer = "tokenizer"
  config.evals.words = default_eval(type="zeroshot", every_steps=500)
  config.evals.words.datasets.cifar10 = default_zeroshot_dataset(
    dataset="folder",
    split="test",
    preprocess="decode|resize",
    class_names="cifar10",
    templates=("a photo of a {}.", "a {}."),
  )
  config.evals.search = default_eval(type="retrieval", every_steps=None)
  config.evals.search.datasets.test = default_retrieval_dataset(
    split="test[:1000]", preprocess="decode|resize"
  )
