"""Declaration of `retrieval`: recall of captions and of images."""

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind


def _check(
  name: str, entry: schema.RetrievalEval, config: schema.Config
) -> None:
  entry_checks.check_texts(name, config)
  entry_checks.check_datasets(name, config)


KIND = EvaluatorKind(
  section=schema.RetrievalEval,
  build="vit_jax.evaluators.retrieval:build",
  prefix="retrieval",
  title="Retrieval",
  protocol=lambda name, entry, config: (
    "Recall at k: 'text' is the share of images of which a caption is among the"
    " k nearest of all captions, 'image' the share of captions whose image is"
    " among the k nearest of all images; near is a large cosine."
  ),
  features=lambda entry: ("image_embedding", "text_embedding"),
  check=_check,
  columns=lambda entry: (
    *(
      Column(
        f"{direction}_r{rank}",
        f"{short} R@{rank}, %",
        "percent",
        decimals=1,
        better="higher",
        panel=f"{words}, recall at 1" if rank == 1 else "",
      )
      for direction, short, words in (
        ("image_to_text", "text", "Image to text"),
        ("text_to_image", "image", "Text to image"),
      )
      for rank in (1, 5, 10)
    ),
    Column("num_images", "images"),
    Column("num_texts", "captions"),
  ),
)
