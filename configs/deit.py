"""DeiT (arXiv 2012.12877) and DeiT III (arXiv 2204.07118).

  --config=configs/deit.py:model=S
  --config=configs/deit.py:model=B,distilled,teacher=runs/regnet
  --config=configs/deit.py:model=B,phase=finetune384 --config.init_from=runs/B
  --config=configs/deit.py:recipe=deit3,model=L
  --config=configs/deit.py:recipe=deit3,model=L,phase=finetune224 \\
      --config.init_from=runs/L

DeiT: Ti, S and B. `distilled` adds the distillation token, which learns from
`teacher`, a checkpoint of any form and family with the same classes. The phases
are pretrain (300 epochs) and finetune384.

DeiT III: S, B, L and H. The phases are pretrain (800 epochs of ImageNet-1k, the
large networks at less than 224 pixels), finetune224, finetune384, i21k and
i21k_to_i1k.

As in the released code, the cosine begins in the first epoch, not at the end of
the warmup. That code sets the rate once per epoch and warms up from 1e-6; here
the rate changes at every step and warms up from 0. With repeated augmentation
batches have 960 and 2112 images, multiples of the three copies, where that code
has 1024 and 2048.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.configs.recipes import deit
from vit_jax.errors import UserError


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args,
    model="S",
    recipe="deit",
    phase="pretrain",
    distilled=False,
    teacher="",
  )
  arguments.check_choice("recipe", args.recipe, ("deit", "deit3"))
  if args.recipe == "deit3":
    if args.distilled or args.teacher:
      raise UserError(
        "Config arguments distilled and teacher are of recipe=deit; DeiT III"
        " has no distillation token."
      )
    config = deit.deit3(args.model, phase=args.phase)
  else:
    arguments.check_choice("model", args.model, ("Ti", "S", "B"))
    config = deit.deit(
      args.model,
      phase=args.phase,
      distilled=args.distilled,
      teacher="" if args.smoke else args.teacher,
    )
  return smoke.shrink(config) if args.smoke else config
