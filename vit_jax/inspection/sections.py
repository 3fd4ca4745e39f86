"""The sections of the page: computing, drawing and remarks."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8

from vit_jax.inspection import (
  attention_distance,
  filters,
  history,
  observation,
  patch_colours,
  position_similarity,
  reconstruction,
)
from vit_jax.inspection.network import Network
from vit_jax.models import build
from vit_jax.report.inspection import (
  attention_figures,
  feature_figures,
  filter_figures,
  position_figures,
  reconstruction_figures,
)
from vit_jax.report.inspection.page import Section
from vit_jax.weights.contract import Weights

# As many as in figure 7 of the paper.
NUM_FILTERS = 28
# Images in the figure of rollouts over training.
_SHOWN_OVER_TRAINING = 4
# Tokens whose attention the heads' maps show, by pooling; see
# `observation.pooling_weights`.
_ASKING = {
  "cls": "the cls token",
  "cls_gap": "the cls token and the patches, on average,",
  "map": "the patches, weighted by the pooling query's to them,",
}

Images = Sequence[UInt8[np.ndarray, "h w c"]]


def parameters(network: Network) -> Section:
  """Draws the parameters, which need no images."""
  kernel = filters.first_kernel(network)
  components, shares = filters.principal_filters(kernel, NUM_FILTERS)
  drawn = [filter_figures.draw(components, shares, kernel.shape[-1])]
  remarks = []
  if position_similarity.has_table(network):
    table = position_similarity.table(network)
    similarity = position_similarity.similarity(table)
    drawn.append(position_figures.draw(similarity))
  elif network.has_attention:
    remarks.append(
      "Nothing is added to tokens by their place (config.model.pos_embedding ="
      f" '{network.module.pos_embedding}'), so there is no similarity of"
      " position embeddings."
    )
  else:
    title = build.family_of(network.module).title
    remarks.append(
      f"A {title} has neither position embeddings nor attention maps to draw."
    )
  return Section("Parameters", drawn, remarks)


def of_images(
  network: Network, images: Images, *, num_shown: int
) -> list[Section]:
  """Draws attention and features: all images count, the first are shown."""
  if not images:
    remark = "There are no images, so neither attention nor features are seen."
    return [Section("Images", remarks=[remark])]
  seen = observation.survey(
    observation.observer(network), network.params, images, num_shown=num_shown
  )
  shown = list(images[:num_shown])
  sections = []
  if network.has_attention:
    drawn = [
      attention_figures.distance(
        seen.distances, _uniform(network), network.module.image_size
      ),
      attention_figures.rollout(shown, seen.rollout),
    ]
    asking = _ASKING.get(network.module.pool, "the patches, on average,")
    drawn += [
      attention_figures.heads(maps, number, asking)
      for number, maps in enumerate(seen.heads, start=1)
    ]
    sections.append(Section("Attention", drawn))
  basis = patch_colours.basis(seen.tokens)
  pixels = patch_colours.colours(seen.tokens[:num_shown], basis)
  features = feature_figures.draw(
    shown[: len(pixels)], pixels, basis.shares, len(seen.tokens)
  )
  return [*sections, Section("Features", [features])]


def of_pretraining(
  weights: Weights, images: Images, *, num_shown: int
) -> list[Section]:
  """Draws predictions of a decoder next to the network; none without one."""
  shown = list(images[:num_shown])
  drawn = reconstruction.reconstruct(weights, shown)
  if drawn is None:
    return []
  figure = reconstruction_figures.draw(shown, *drawn)
  return [Section("Pre-training", [figure])]


def over_training(
  checkpoint: str, images: Images, *, num_shown: int, num_steps: int
) -> list[Section]:
  """Draws figures over the steps of a run; none for fewer than two.

  `checkpoint` is the path given by the user; see `history.steps`.
  """
  wanted = history.steps(checkpoint, num_steps)
  if len(wanted) < 2:
    return []
  num_shown = min(num_shown, _SHOWN_OVER_TRAINING, len(images))
  steps, components, similarities, distances, rollouts = [], [], [], [], []
  observe = None
  for step, network in history.networks(checkpoint, wanted):
    steps.append(step)
    kernel = filters.first_kernel(network)
    components.append(filters.principal_filters(kernel, NUM_FILTERS)[0])
    if position_similarity.has_table(network):
      table = position_similarity.table(network)
      similarity = position_similarity.similarity(table)
      similarities.append(position_similarity.by_distance(similarity))
    if network.has_attention and images:
      # The steps differ only in parameters, so one program serves all.
      observe = observe or observation.observer(network)
      seen = observation.survey(
        observe, network.params, images, num_shown=num_shown
      )
      distances.append(seen.distances.mean(axis=(0, 2)))
      rollouts.append(seen.rollout)
  if len(steps) < 2:
    return []
  drawn = [filter_figures.over_training(steps, components)]
  if similarities:
    drawn.append(position_figures.over_training(steps, np.stack(similarities)))
  if distances:
    uniform = _uniform(network)
    drawn.append(
      attention_figures.distance_over_training(
        steps, np.stack(distances), uniform, len(images)
      )
    )
    drawn.append(
      attention_figures.rollout_over_training(
        images[:num_shown], steps, np.stack(rollouts)
      )
    )
  return [Section("Over training", drawn)]


def _uniform(network: Network) -> float:
  between = attention_distance.between_patches(network.grid, network.stride)
  return attention_distance.uniform(between)
