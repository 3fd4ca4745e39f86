"""Published sizes of datasets."""

from vit_jax.paper import cost
from vit_jax.paper.datasets import DATASETS


def test_jft_is_of_the_size_that_the_papers_cost_was_counted_with():
  # Table 6: ViT-H/14, 14 epochs, 4262 exaFLOPs.
  images = DATASETS["jft_300m"].num_examples["train"]
  assert 4262 * 0.98 < cost.training_exaflops("ViT-H/14", images, 14) < 4262


def test_every_dataset_has_images_to_train_on():
  for dataset in DATASETS.values():
    assert dataset.num_examples["train"] > dataset.num_classes > 1
