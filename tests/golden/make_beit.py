"""Makes the small checkpoints of BEiT in this folder.

`huggingface_beit`, `huggingface_beit_pretraining` and `timm_beit` are as
transformers and timm save them, with random parameters; see
make_huggingface.py. The authors' own form, with one table for all layers and a
prediction head, is made of the second one in the tests. Made with torch 2.13.0,
transformers 5.23.0 and timm 1.0.31:

  pip install torch transformers timm
  python tests/golden/make_beit.py
"""

import copy

import transformers
from make_huggingface import (
  HALVES,
  IMAGENET,
  LABELS,
  SIZE,
  randomize,
  save_huggingface,
  save_timm,
)
from timm.models import beit

SIDES = dict(
  hidden_size=16,
  num_attention_heads=4,
  num_hidden_layers=2,
  intermediate_size=16,
  image_size=16,
  patch_size=4,
  drop_path_rate=0.0,
)


def make_huggingface() -> None:
  config = transformers.BeitConfig(
    **SIDES, id2label=LABELS, use_relative_position_bias=True
  )
  model = transformers.BeitForImageClassification(config)
  randomize(model, 41)
  functions = dict.fromkeys((16, 24), lambda x: model(x).logits)
  save_huggingface("huggingface_beit", model, HALVES, functions, processor=SIZE)


def make_pretraining() -> None:
  """Logits of the tokens of all patches, and those with some masked."""
  config = transformers.BeitConfig(
    **SIDES,
    use_shared_relative_position_bias=True,
    use_mask_token=True,
    vocab_size=12,
  )
  model = transformers.BeitForMaskedImageModeling(config)
  randomize(model, 42)
  functions = dict.fromkeys((16, 24), lambda x: model(x).logits)
  save_huggingface(
    "huggingface_beit_pretraining", model, HALVES, functions, processor=SIZE
  )


def make_timm() -> None:
  keys = dict(
    img_size=16,
    patch_size=4,
    embed_dim=16,
    depth=1,
    num_heads=4,
    mlp_ratio=1,
    num_classes=5,
    init_values=0.1,
    use_abs_pos_emb=False,
    use_rel_pos_bias=True,
  )
  model = beit.Beit(**keys)
  randomize(model, 43)
  larger = copy.deepcopy(model)
  larger.set_input_size(img_size=24)
  save_timm(
    "timm_beit",
    model,
    IMAGENET,
    {16: model, 24: larger},
    "beitv2_base_patch16_224",
    model_args=keys,
  )


if __name__ == "__main__":
  make_huggingface()
  make_pretraining()
  make_timm()
