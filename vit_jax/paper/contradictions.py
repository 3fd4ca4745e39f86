"""Contradictions and impossible numbers in the paper.

Whoever checks a number against the paper has to name the table.
"""

import dataclasses

from vit_jax.paper.results import TRANSFER


@dataclasses.dataclass(frozen=True)
class Contradiction:
  """One of them, in the tables of these numbers.

  `source` is a tag of its evidence: [P] the paper itself, [calc] a calculation
  from its numbers.
  """

  tables: tuple[int, ...]
  sentence: str
  source: str


# Column -> Table 5, Table 6: ViT-H/14 pre-trained on JFT-300M.
H14_IN_TABLES_5_AND_6 = {
  "imagenet": (88.04, 88.08),
  "real": (90.33, 90.36),
  "cifar100": (94.55, 94.71),
  "pets": (97.56, 97.11),
  "flowers": (99.68, 99.71),
}
# exaFLOPs that Table 6 prints of R50x1+ViT-L/16 at 7 epochs, and half of what
# it prints at 14.
HYBRID_L16_EXAFLOPS = (859.0, 834.0)

CONTRADICTIONS = {
  "h14": Contradiction(
    (5, 6),
    "ViT-H/14 on JFT-300M differs between Tables 5 and 6: "
    + ", ".join(
      f"{TRANSFER[key].title} {a:.2f} and {b:.2f}"
      for key, (a, b) in H14_IN_TABLES_5_AND_6.items()
    )
    + ".",
    "[P]",
  ),
  "hybrid_l16": Contradiction(
    (6,),
    "R50x1+ViT-L/16 at 7 epochs is given 859 exaFLOPs, but half of its 14"
    " epochs' 1668 is 834, as is the sum of ViT-L/16 and R50x1 (783 + 50):"
    " 859 is probably a slip.",
    "[calc]",
  ),
  "rate_0.06": Contradiction(
    (4,),
    "The text adds the rate 0.06 on ImageNet for ResNets and hybrids only;"
    " Table 4 lists it for all networks.",
    "[P]",
  ),
  "missing_recipes": Contradiction(
    (3, 5, 6),
    "Table 3 has no row for R200x3, for R152x2 at 14 epochs or for ViT-H/14 on"
    " ImageNet-21k, of which Tables 5 and 6 have results.",
    "[P]",
  ),
  "bit_l": Contradiction(
    (2,),
    "The text has ViT-L/16 (JFT-300M) ahead of BiT-L on all tasks; in Table 2"
    " they are equal on ReaL and 76.28 to 76.29 on VTAB.",
    "[P]",
  ),
  "bit_epochs": Contradiction(
    (7,),
    "The text says that Big Transfer trained for 30 epochs; its own paper says"
    " 40 for BiT-L.",
    "[P]",
  ),
  "large_params": Contradiction(
    (1,),
    "ViT-Large is given 307M parameters; ViT-L/16 with a linear head of 1000"
    " classes has 304M, ViT-L/32 with its pre-training head 307.6M.",
    "[calc]",
  ),
}
