"""Keys of `config.model` of two-tower networks."""

from typing import Any, Literal

from vit_jax.config.named_sections import AnyModel
from vit_jax.config.schema import Finite, Model, Positive, Size, key
from vit_jax.models.text.section import TextModel
from vit_jax.models.vit.section import ViTModel

# Keys that both a two-tower network and its image tower would have.
SHARED = tuple(name for name in Model.model_fields if name != "name")


class TwoTowersModel(Model):
  """An image tower and a text tower that embed into one space.

  `variant`, `image_size`, `normalize` and the other keys that all families
  have are those of the image tower; `remat` is of both, and `dtype` too where
  `text.dtype` is None.
  """

  name: str = key("two_towers", "Name of the family.")
  image: AnyModel = key(
    ViTModel(),
    "The image tower: its family by name, and the keys that are that family's"
    " own.",
  )
  text: TextModel = key(TextModel(), "The text tower.")
  embedding_size: Size | None = key(
    None, "Length of the embeddings; None: the width of the text tower."
  )
  image_projection: Literal["none", "linear", "affine"] = key(
    "none",
    "How the image tower's feature becomes an embedding: as it is [SigLIP], by"
    " a matrix [CLIP], or by a matrix and a bias.",
  )
  text_projection: Literal["none", "linear", "affine"] = key(
    "affine", "Likewise of the text tower; a matrix and a bias [SigLIP]."
  )
  scale_init: Positive = key(
    10.0,
    "What similarities are multiplied by at the start. 10 [SigLIP], 1 / 0.07"
    " [CLIP]; its logarithm is learned.",
  )
  bias_init: Finite | None = key(
    None,
    "What is added to them at the start; None: nothing is [CLIP]. -10 [SigLIP]",
  )

  def updated(self, **keys: Any) -> "TwoTowersModel":
    """Copy with other values of its keys and of its image tower's own."""
    own = {name: value for name, value in keys.items() if name not in SHARED}
    whole = super().updated(**keys)
    return whole.model_copy(update={"image": whole.image.updated(**own)})
