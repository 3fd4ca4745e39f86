"""The study of docs/selfsupervised_study.md: learning without labels, in small.

  --config=configs/study_selfsupervised.py:run=dino --config.data_dir=DIR
  --config=configs/study_selfsupervised.py:run=tuned --config.data_dir=FEW \\
      --config.init_from=RUN

The plain ViT of docs/families_study.md is pre-trained on CIFAR-10, an image
folder DIR, by MAE, BEiT, BEiT v2, DINO, DINOv2 and DINOv2 with the keys of
configs/dinov2.py:recipe=dinov3, and with labels for comparison
(`run=supervised`). All runs have the compute in which the supervised one sees
`seen` images; `random` keeps its initial weights. Frozen features are measured
by k-NN and a linear probe. `tokenizer` is BEiT's, the file that
benchmarks/study_selfsupervised.py makes by k-means of the features of `random`,
or BEiT v2's, the run `vqkd`, whose `teacher` is the run `mae`.

`fcmae` pre-trains a small ConvNeXt V2, which `convnext` trains with labels and
`random_convnext` not at all.

`tuned` trains all weights on FEW, which benchmarks/study_selfsupervised.py
makes: DIR's test images and 10 training images per class. It starts from RUN,
or from scratch without `init_from`; with `network=convnext` a ConvNeXt.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
  default_view,
)
from vit_jax.errors import UserError

# Millions of multiply-adds of a forward pass, a third of those to learn from an
# image, for all crops, heads, decoders and teachers, counting whole layers.
MACS = {
  "supervised": 3.69,
  "mae": 2.13,
  "vqkd": 6.14,
  "beit": 5.18,
  "beitv2": 6.76,
  "dino": 14.89,
  "dinov2": 15.67,
  "dinov3": 15.67,
  "convnext": 4.16,
  "fcmae": 2.36,
}
RANDOM = ("random", "random_convnext")
CONVNEXTS = ("random_convnext", "convnext", "fcmae")
BEITS = ("beit", "beitv2")
RUNS = (*RANDOM, *MACS, "tuned")
SEEN = 1_000_000  # Of the supervised ViT: 20 epochs.
BATCH_SIZE = 64
TOKENS = 512
_TUNED_STEPS, _TUNED_BATCH, _TUNED_RATE = 200, 50, 1e-3
_CROP = "decode|simple_random_crop|flip_lr"
_MASKED_CROP = (
  "decode|random_resized_crop(scale=[0.2, 1.0])|keep('image')|flip_lr"
)
_JITTER = "color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8)|greyscale(p=0.2)"


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args,
    run="dino",
    seen=SEEN,
    tokenizer="",
    teacher="",
    network="vit",
  )
  arguments.check_choice("run", args.run, RUNS)
  arguments.check_choice("network", args.network, ("vit", "convnext"))
  if args.network != "vit" and args.run != "tuned":
    raise UserError(
      f"Config argument network = {args.network!r} is of run=tuned; other runs"
      f" of a ConvNeXt are {', '.join(CONVNEXTS)}."
    )
  is_beit = args.run in BEITS
  arguments.check_used(
    "tokenizer", args.tokenizer, is_beit, f"run={' or '.join(BEITS)}"
  )
  arguments.check_used("teacher", args.teacher, args.run == "vqkd", "run=vqkd")
  config = default_config()
  config.log_every_steps = 20
  if args.run in CONVNEXTS or args.network == "convnext":
    config.model.update(name="convnext", variant="T", version=2, image_size=32)
    config.model.update(depths=(2, 2, 2), widths=(16, 32, 64), stem_stride=2)
  else:
    config.model.update(variant="Ti/8", image_size=32, width=64, depth=4)
    config.model.update(num_heads=4, mlp_dim=256, pool="cls")
  config.train.update(dataset="folder", batch_size=BATCH_SIZE, preprocess=_CROP)
  config.total_steps = 1
  if args.run in MACS:
    seen = args.seen * MACS["supervised"] / MACS[args.run]
    config.total_steps = max(1, round(seen / BATCH_SIZE))
  config.optimizer.update(name="adamw", weight_decay=0.05, grad_clip_norm=1.0)
  config.schedule.update(
    base_lr=1e-3,
    warmup_steps=config.total_steps // 20,
    decay="cosine",
  )
  config.checkpoint.every_steps = 500
  if args.run == "tuned":
    _tuning(config)
  else:
    _measure_features(config)
  if args.run in RANDOM:
    config.schedule.base_lr = 1e-12
  elif args.run == "mae":
    _mae(config)
  elif args.run == "fcmae":
    _fcmae(config)
  elif args.run == "vqkd":
    _vqkd(config, args.teacher or "random")
  elif is_beit:
    _beit(config, args.run, args.tokenizer or "random")
  elif args.run in ("dino", "dinov2", "dinov3"):
    _dino(config, args.run)
  if not args.smoke:
    return config
  masks = args.run in ("dinov2", "dinov3")
  config = smoke.shrink(config, enlarge=2 if masks else 1)
  if "watched" in config.evals:
    # Both k-NNs use the same generated data, so they need two names.
    generated = config.evals.watched.datasets.generated
    config.evals.watched.datasets = ml_collections.ConfigDict(
      {"fifth": generated}
    )
  return config


def _measure_features(config: ml_collections.ConfigDict) -> None:
  """Measures with a fifth of the images during the run, all at the end."""
  every = -(-config.total_steps // 5)
  config.evals.watched = default_eval(type="knn", every_steps=every)
  config.evals.knn = default_eval(type="knn", every_steps=None)
  config.evals.probe = default_eval(type="linear_probe", every_steps=None)
  config.evals.probe.l2_sweep = (1e-3,)
  config.evals.watched.neighbors = config.evals.knn.neighbors = (20,)
  for name, dataset, split in (
    ("watched", "fifth", "train[:10000]"),
    ("knn", "all", "train"),
    ("probe", "all", "train"),
  ):
    config.evals[name].datasets[dataset] = default_fewshot_dataset(
      dataset="folder",
      train_split=split,
      test_split="test",
      preprocess="decode|resize",
    )


def _mae(config: ml_collections.ConfigDict) -> None:
  """A decoder as wide as the encoder, of one layer."""
  config.model.pos_embedding_init = "sincos2d"
  config.objective.update(name="mae", decoder_width=64)
  config.objective.update(decoder_depth=1, decoder_num_heads=4)
  config.optimizer.update(b2=0.95, freeze=r"Transformer/posembed_input/.*")
  config.train.preprocess = _MASKED_CROP


def _fcmae(config: ml_collections.ConfigDict) -> None:
  """A decoder as wide as the encoder's last map."""
  config.objective.update(name="fcmae", decoder_width=64)
  config.optimizer.b2 = 0.95
  config.train.preprocess = _MASKED_CROP


def _vqkd(config: ml_collections.ConfigDict, teacher: str) -> None:
  """A decoder of one layer, as of two of the published tokenizers."""
  config.model.update(pool="gap", cls_token=True)
  config.objective.update(name="vqkd", teacher=teacher, tokens=TOKENS)
  config.objective.decoder_depth = 1
  config.train.preprocess = "decode|random_resized_crop|keep('image')|flip_lr"


def _beit(config: ml_collections.ConfigDict, run: str, tokenizer: str) -> None:
  """Six of the sixteen patches are masked, the papers' share."""
  config.objective.update(name="beit", tokenizer=tokenizer, tokens=TOKENS)
  config.objective.update(masked_patches=6, smallest_block=2)
  if run == "beitv2":
    # Three quarters of the layers, as in ViT-B.
    config.objective.update(head_layers=2, early_layers=3)
  config.train.preprocess = (
    "decode|random_resized_crop|color_jitter(0.4, 0.4, 0.4)|keep('image')"
    "|flip_lr"
  )


def _dino(config: ml_collections.ConfigDict, run: str) -> None:
  """Crops of 32 and 16 px, and few prototypes."""
  config.objective.update(
    name="dino" if run == "dino" else "dinov2",
    prototypes=512,
    hidden_width=256,
    bottleneck=64,
    teacher_momentum="cosine(0.99, 1.0)",
    teacher_temperature=0.04,
  )
  if run != "dino":
    config.objective.patch_bottleneck = 64
  if run == "dinov3":
    config.model.update(pos_embedding="none", weight_init="deit")
    config.model.update(rope=True, rope_base=100.0, rope_coordinates="unit")
    config.objective.update(unit_prototypes=False, weight_norm=False)
  config.train.preprocess = "decode|keep('image')"
  views = config.train.views
  views["global"] = default_view(count=2, preprocess=_views(0.4, 1.0))
  views.local = default_view(count=4, size=16, preprocess=_views(0.1, 0.4))
  config.optimizer.update(weight_decay=0.04, grad_clip_norm=3.0)


def _views(low: float, high: float) -> str:
  return f"decode|random_resized_crop(scale=[{low}, {high}])|{_JITTER}|flip_lr"


def _tuning(config: ml_collections.ConfigDict) -> None:
  """A hundred passes over a hundred images."""
  config.total_steps = _TUNED_STEPS
  config.train.batch_size = _TUNED_BATCH
  config.schedule.update(base_lr=_TUNED_RATE, warmup_steps=_TUNED_STEPS // 20)
  config.evals.test = default_eval(
    type="classification", split="test", every_steps=None
  )
