"""The declaration of BEiT."""

from typing import TYPE_CHECKING, Any

from etils import epath

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.models.vit import sizes
from vit_jax.objectives import encoder_checks, frozen_path, mask_checks
from vit_jax.objectives.beit import centres
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.objectives.masked_patch.kind import COLOURS
from vit_jax.paper import cost
from vit_jax.weights import files

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

KEY = "config.objective.tokenizer"
MEAN_COLOUR = "mean_colour"
# Parameters in addition to the network's.
BESIDE = ("mask_token", "patch_head", "aggregation")
# File suffixes of tokenizers: centres, and the state dicts of VQ-KD and dVAE.
CENTRES, PICKLES = ".npz", (".pth", ".pt", ".bin", ".pkl")


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  encoder_checks.check_patch_learning(config)
  mask_checks.check(config)
  if config.objective.head_layers:
    _check_head_layers(config)
  _check_tokenizer(config.objective)


def _check_head_layers(config: schema.Config) -> None:
  """Raises UserError if layers cannot predict from the class token."""
  model, objective = config.model, config.objective
  key = f"config.objective.head_layers = {objective.head_layers}"
  family = registry.FAMILIES.get(model.name)
  depth = family.size(model).depth
  if objective.early_layers >= depth:
    raise UserError(
      f"config.objective.early_layers = {objective.early_layers} is not before"
      f" the last of the network's {depth} layers; use at most {depth - 1}, or"
      " config.objective.head_layers=0."
    )
  if not sizes.has_cls(model.pool, model.cls_token):
    raise UserError(
      f"{key} predicts from the class token, which config.model.pool ="
      f" {model.pool!r} leaves out; set config.model.cls_token=True, or"
      " config.objective.head_layers=0."
    )
  is_bias = model.pos_embedding == "relative_bias"
  wanted = "every_layer_shared" if is_bias else "stem"
  is_added = model.pos_embedding != "relative" and not model.rope
  if not is_added or model.pos_embedding_at != wanted:
    raise UserError(
      f"{key} adds layers that have no positions of their own, but"
      f" config.model.pos_embedding = {model.pos_embedding!r} at"
      f" {model.pos_embedding_at!r}, with rope = {model.rope}, gives them to"
      " each layer; use 'learned_1d' at 'stem', or 'relative_bias' at"
      " 'every_layer_shared', and rope=False."
    )


def check_files(config: schema.Config) -> None:
  """Raises UserError for a tokenizer that cannot be read."""
  path = config.objective.tokenizer
  if path == MEAN_COLOUR or frozen_path.RANDOM.fullmatch(path):
    return
  from vit_jax.objectives.beit import tokenizers

  with frozen_path.told(KEY):
    tokenizers.cost_of(config)


def _check_tokenizer(objective: schema.BEiT) -> None:
  path, tokens = objective.tokenizer, objective.tokens
  if path is None:
    raise UserError(
      f"{KEY} = None names nothing to learn from; make a tokenizer by python -m"
      " vit_jax.prepare tokenizer --images=DATASET --checkpoint=PATH"
      f" --output=FILE.npz, or use '{MEAN_COLOUR}'."
    )
  if path == MEAN_COLOUR:
    check_tokens(path, COLOURS, tokens)
    return
  if frozen_path.RANDOM.fullmatch(path):
    return
  frozen_path.check(KEY, path, without=f", or '{MEAN_COLOUR}'")
  suffix = epath.Path(path).suffix
  if suffix == CENTRES:
    found = centres.read(path)
    check_tokens(path, len(found.rows), tokens)
    _check_network(path, found.network)
  elif suffix not in PICKLES and not epath.Path(path).is_dir():
    raise UserError(
      f"{KEY} = {path!r} is of no known form; give an {CENTRES} of `vit_jax"
      '.prepare tokenizer`, the workdir of a run of objective "vqkd", or BEiT'
      f" v2's VQ-KD or DALL-E's encoder in {', '.join(PICKLES)}."
    )


def _check_network(path: str, network: str) -> None:
  """Raises UserError if the network of a tokenizer of centres is missing."""
  if frozen_path.RANDOM.fullmatch(network) or files.exists(network):
    return
  raise UserError(
    f"{KEY} = {path!r} was made with the network {network!r}, which does not"
    " exist; put it back, or make the tokenizer again."
  )


def check_tokens(path: str, count: int, wanted: int | None) -> None:
  """Raises UserError if a tokenizer does not have the requested tokens."""
  if wanted is not None and wanted != count:
    raise UserError(
      f"config.objective.tokens = {wanted}, but {KEY} = {path!r} has {count};"
      f" use {count} or None."
    )


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds prediction of masked patches' tokens by the config's network."""
  from vit_jax.objectives.beit import objective

  del facts, total_steps
  return objective.beit(config)


def forward_flops(config: schema.Config, num_classes: int | None) -> int:
  """Counts FLOPs of an image's forward pass, two per multiply-add.

  A training step counts as three forward passes, but only one for a tokenizer.
  """
  from vit_jax.objectives.beit import tokenizers

  del num_classes
  objective, model = config.objective, config.model
  family = registry.FAMILIES.get(model.name)
  tokens, flops = tokenizers.cost_of(config)
  predictions = 1
  # The class token is read as well if other layers predict from it.
  read = objective.masked_patches + bool(objective.head_layers)
  body = cost.trained_flops(model, num_classes=None, read_patches=read)
  if objective.head_layers:
    predictions = 2
    side, _ = family.grid(model)
    added = model.updated(depth=objective.head_layers, scan_layers=False)
    body += family.layer_flops(added, side**2 + family.num_prefix_tokens(model))
    body -= family.unread_flops(added, objective.masked_patches)
  head = 2 * family.size(model).width * tokens * objective.masked_patches
  return body + predictions * head + flops // 3


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the masks and the tokenizer."""
  objective = config.objective
  added = {}
  most, single = " at most", ""
  if objective.fill_masks:
    most, single = "", ", and single ones"
  if objective.head_layers:
    added["class token"] = (
      f"{objective.head_layers} layers predict the tokens from it and the"
      f" patches of layer {objective.early_layers}"
    )
  return {
    "objective": (
      f"BEiT, tokens of {objective.masked_patches} masked patches{most}, in"
      f" rectangles of {objective.smallest_block} or more{single}"
    ),
    **added,
    "tokenizer": {MEAN_COLOUR: f"{COLOURS} mean colours"}.get(
      objective.tokenizer, objective.tokenizer
    ),
  }


def exported(params: Any, objective_state: Any) -> dict[str, Any]:
  """Returns the network, without the parts that predict tokens."""
  del objective_state
  return {name: tree for name, tree in params.items() if name not in BESIDE}


KIND = ObjectiveKind(
  section=schema.BEiT,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  check=check,
  check_files=check_files,
  exported=exported,
  small={
    "tokenizer": "random",
    "tokens": 16,
    "masked_patches": 2,
    "smallest_block": 1,
    "early_layers": 1,
  },
)
