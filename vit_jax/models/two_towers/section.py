"""Keys of `config.model` of two-tower networks."""

from typing import Any, Literal

from vit_jax.config.named_sections import AnyModel
from vit_jax.config.schema import Finite, Model, Positive, Size, key
from vit_jax.models.text.section import TextModel
from vit_jax.models.vit.section import ViTModel

# Keys that a two-tower network and its image tower would both have.
SHARED = tuple(name for name in Model.model_fields if name != "name")


class TwoTowersModel(Model):
  """An image tower and a text tower that embed into one space.

  `variant`, `image_size`, `normalize` and the other keys common to all families
  apply to the image tower; `remat` applies to both towers, as does `dtype` if
  `text.dtype` is None.
  """

  name: str = key("two_towers", "Name of the family.")
  image: AnyModel = key(
    ViTModel(),
    "Image tower: the name of its family, and the keys that only this family"
    " has.",
  )
  text: TextModel = key(TextModel(), "Text tower.")
  embedding_size: Size | None = key(
    None, "Dimension of the embeddings; None: the width of the text tower."
  )
  image_projection: Literal["none", "linear", "affine"] = key(
    "none",
    "Projection of the image tower's feature to an embedding: none [SigLIP],"
    " a matrix [CLIP], or a matrix and a bias.",
  )
  text_projection: Literal["none", "linear", "affine"] = key(
    "affine",
    "Projection of the text tower's feature; a matrix and a bias [SigLIP].",
  )
  scale_init: Positive = key(
    10.0,
    "Initial factor of the similarities. 10 [SigLIP], 1 / 0.07 [CLIP]; its"
    " logarithm is learned.",
  )
  bias_init: Finite | None = key(
    None, "Initial bias of the similarities; None: no bias [CLIP]. -10 [SigLIP]"
  )

  def updated(self, **keys: Any) -> "TwoTowersModel":
    """Returns a copy with new values for its keys and its image tower's."""
    own = {name: value for name, value in keys.items() if name not in SHARED}
    whole = super().updated(**keys)
    return whole.model_copy(update={"image": whole.image.updated(**own)})
