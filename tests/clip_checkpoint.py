"""A small CLIP of Hugging Face with random weights and its tokenizer."""

import pathlib
import shutil

import jax

import vit_jax
from vit_jax.models import build

_GOLDEN = pathlib.Path(__file__).parent / "golden"


def save(path: pathlib.Path) -> None:
  """Writes the checkpoint as a directory, for images of 16 px."""
  tokenizer = _GOLDEN / "tokenizers" / "huggingface_clip"
  like, _ = vit_jax.load(str(_GOLDEN / "huggingface_clip"))
  model = build.config_of(like)
  found = vit_jax.load_tokenizer(tokenizer)
  (end,) = found.settings.end
  numbers = {"vocab_size": found.vocab_size, "length": found.length}
  numbers["eot_token"] = end
  text = model.text.model_copy(update=numbers)
  network = build.create(
    model.model_copy(update={"text": text}), num_classes=None
  )
  params = jax.jit(network.init)(jax.random.key(0))["params"]
  vit_jax.save(str(path), network, params)
  for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copy(tokenizer / name, path)
