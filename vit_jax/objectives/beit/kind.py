"""The declaration of BEiT."""

from typing import TYPE_CHECKING, Any

from etils import epath

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
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
BESIDE = ("mask_token", "patch_head")
# File suffixes of tokenizers: centres, and the dVAE's state dict.
CENTRES, PICKLES = ".npz", (".pth", ".pt", ".bin", ".pkl")


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  encoder_checks.check(config)
  encoder_checks.check_start(config)
  if config.model.norm_after_pool:
    raise UserError(
      "config.model.norm_after_pool = True has no norm of the patches that"
      ' objective "beit" tells tokens of; set it for fine-tuning alone.'
    )
  mask_checks.check(config)
  _check_tokenizer(config.objective)


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
  elif suffix not in PICKLES:
    raise UserError(
      f"{KEY} = {path!r} is of no known form; give an {CENTRES} of `vit_jax"
      f".prepare tokenizer`, or DALL-E's encoder in {', '.join(PICKLES)}."
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
  width = registry.FAMILIES.get(config.model.name).size(config.model).width
  tokens, flops = tokenizers.cost_of(config)
  head = 2 * width * tokens * config.objective.masked_patches
  body = cost.trained_flops(
    config.model,
    num_classes=None,
    read_patches=config.objective.masked_patches,
  )
  return body + head + flops // 3


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the masks and the tokenizer."""
  objective = config.objective
  return {
    "objective": (
      f"BEiT, tokens of {objective.masked_patches} masked patches at most, in"
      f" rectangles of {objective.smallest_block} or more"
    ),
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
  },
)
