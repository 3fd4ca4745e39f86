"""What a network takes over from the parameters of a checkpoint."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import experiments
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.pretrained import fitting
from vit_jax.weights.contract import Weights

MODEL = named_sections.section("model")


def params(num_classes=3, width=4):
  return {
    "embedding": {"kernel": jnp.ones((2, width))},
    "head": {
      "kernel": jnp.zeros((width, num_classes)),
      "bias": jnp.zeros(num_classes),
    },
  }


def weights(num_classes=3, width=4, about_beside=(), **others):
  leaves = {
    "embedding": {"kernel": np.full((2, width), 5.0, np.float32)},
    "head": {
      "kernel": np.full((width, num_classes), 6.0, np.float32),
      "bias": np.full(num_classes, 7.0, np.float32),
    },
  }
  return Weights(
    path="runs/x",
    model=MODEL,
    params=leaves | others,
    about_beside=about_beside,
  )


def started(fresh, found, without=(), classes=None, says_classes=True):
  number = fresh["head"]["bias"].shape[0] if says_classes else None
  model = MODEL.model_copy(update={"num_classes": number})
  fitted = fitting.fit(fresh, found, model, without, classes=classes)
  return fitting.put(fresh, fitted)


def test_all_that_fits_is_taken():
  result = started(params(), weights())
  np.testing.assert_array_equal(result["embedding"]["kernel"], 5)
  np.testing.assert_array_equal(result["head"]["bias"], 7)


def test_a_head_of_another_size_starts_afresh_and_is_named(caplog):
  result = started(params(num_classes=10), weights())
  np.testing.assert_array_equal(result["embedding"]["kernel"], 5)
  assert result["head"]["bias"].shape == (10,)
  np.testing.assert_array_equal(result["head"]["bias"], 0)
  assert "runs/x: The head of 3 classes is dropped" in caplog.text
  assert "A new head of 10 classes is initialised" in caplog.text


def with_own_rows(num_classes):
  """A checkpoint with a number of its own in each class of the head."""
  rows = np.arange(num_classes, dtype=np.float32)
  kernel = np.tile(10 * rows, (4, 1))
  return weights(head={"kernel": kernel, "bias": rows})


def test_a_head_starts_from_the_classes_that_a_file_lists(tmp_path, caplog):
  path = tmp_path / "map.txt"
  path.write_text("4\n0\r\n 4 \n")
  result = started(params(), with_own_rows(5), classes=str(path))
  np.testing.assert_array_equal(result["head"]["bias"], [4, 0, 4])
  np.testing.assert_array_equal(result["head"]["kernel"], [[40, 0, 40]] * 4)
  np.testing.assert_array_equal(result["embedding"]["kernel"], 5)
  assert not caplog.text


def test_the_file_of_classes_may_be_in_the_home_directory(
  tmp_path, monkeypatch
):
  monkeypatch.setenv("HOME", str(tmp_path))
  (tmp_path / "map.txt").write_text("4\n0\n4\n")
  result = started(params(), with_own_rows(5), classes="~/map.txt")
  np.testing.assert_array_equal(result["head"]["bias"], [4, 0, 4])


def test_the_number_of_classes_may_be_the_datas(tmp_path):
  """As `model.num_classes` is if the config leaves it unset."""
  path = tmp_path / "map.txt"
  path.write_text("4\n0\n4\n")
  result = started(
    params(), with_own_rows(5), classes=str(path), says_classes=False
  )
  np.testing.assert_array_equal(result["head"]["bias"], [4, 0, 4])


@pytest.mark.parametrize("pattern", ["head/.*", ".*kernel"])
def test_classes_of_a_head_that_is_left_out_are_refused(pattern, tmp_path):
  path = tmp_path / "map.txt"
  path.write_text("4\n0\n4\n")
  with pytest.raises(UserError) as caught:
    started(params(), with_own_rows(5), (pattern,), classes=str(path))
  for word in ("config.init_classes", "map.txt", "config.init_without"):
    assert word in str(caught.value)


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("4\n0\n", ["has 2 lines", "has 3 classes"]),
    ("4\n0\n5\n", ["line 3 is '5'", "0 to 4"]),
    ("4\n-1\n0\n", ["line 2 is '-1'", "one number a line"]),
    ("4\n\n0\n", ["line 2 is ''"]),
    ("n01440764\n", ["line 1 is 'n01440764'"]),
    (b"\xff\xfe", ["line 1 is"]),
    (None, ["map.txt does not exist"]),
  ],
)
def test_a_list_of_classes_that_does_not_fit_is_a_sentence(
  text, words, tmp_path
):
  path = tmp_path / "map.txt"
  if text is not None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
  with pytest.raises(UserError) as caught:
    started(params(), with_own_rows(5), classes=str(path))
  assert all(word in str(caught.value) for word in words)


def test_a_checkpoint_without_a_head_has_no_classes_to_list(tmp_path):
  found = weights()
  del found.params["head"]
  with pytest.raises(UserError, match="runs/x, which has no head"):
    started(params(), found, classes=str(tmp_path / "map.txt"))


def test_parameters_left_out_by_name_stay_fresh(caplog):
  result = started(params(), weights(), ("embedding/.*",))
  np.testing.assert_array_equal(result["embedding"]["kernel"], 1)
  np.testing.assert_array_equal(result["head"]["bias"], 7)
  assert "embedding/.* is not taken over" in caplog.text


def test_what_was_assumed_of_a_file_is_logged(caplog):
  assumed = Weights("x.npz", MODEL, weights().params, None, ("Heads of 64.",))
  started(params(), assumed)
  assert "x.npz: Heads of 64." in caplog.text


def test_a_body_that_does_not_fit_is_a_table_of_shapes():
  with pytest.raises(UserError) as error:
    started(params(width=8), weights())
  assert "runs/x do not fit config.model" in str(error.value)
  (row,) = [
    line for line in str(error.value).splitlines() if "embedding" in line
  ]
  assert row.split("  ")[0] == "embedding/kernel"
  assert "(2, 4)" in row and "(2, 8)" in row


def test_only_a_start_tells_of_parameters_of_the_training(caplog):
  found = weights(about_beside=["mask_token is not part of the network."])
  fitting.place(params(), found, MODEL)
  fitting.place_body(params(), found, MODEL)
  assert not caplog.messages
  fitting.fit(params(), found, MODEL)
  assert caplog.messages == ["runs/x: mask_token is not part of the network."]


def test_results_are_on_the_shardings_of_the_network():
  parts = experiments.build(mesh__fsdp=2)
  wanted = parts.abstract_state.params
  given = parts.init_state().params
  found = Weights("x", parts.config.model, jax.device_get(given))
  placed = fitting.place(wanted, found, parts.config.model)
  jax.tree.map(
    lambda leaf, spec: leaf.sharding == spec.sharding or pytest.fail(),
    placed,
    wanted,
  )


def test_evaluation_takes_no_other_head():
  with pytest.raises(UserError, match="The head of 3 classes is dropped"):
    fitting.place(params(num_classes=10), weights(), MODEL)


@pytest.mark.parametrize("num_classes", [3, 10])
def test_the_body_is_placed_whatever_the_head(num_classes):
  found = weights(num_classes)
  result = fitting.place_body(params(), found, MODEL)
  np.testing.assert_array_equal(result["embedding"]["kernel"], 5)
  np.testing.assert_array_equal(result["head"]["kernel"], np.zeros((4, 3)))
  np.testing.assert_array_equal(result["head"]["bias"], np.zeros(3))


def test_the_body_is_placed_of_a_checkpoint_without_a_head():
  found = weights()
  del found.params["head"]
  result = fitting.place_body(params(), found, MODEL)
  np.testing.assert_array_equal(result["embedding"]["kernel"], 5)
  assert set(result) == {"embedding", "head"}


def test_a_body_that_does_not_fit_is_refused():
  with pytest.raises(UserError, match="embedding/kernel"):
    fitting.place_body(params(width=8), weights(), MODEL)


def test_what_stands_beside_the_network_is_taken_whole_or_starts(caplog):
  """As the decoder of a masked autoencoder, whose sizes a config may change."""
  decoder = {"kernel": np.full((2, 3), 8.0, np.float32)}
  found = dataclasses.replace(weights(), beside={"decoder": decoder})
  same = {**params(), "decoder": {"kernel": jnp.zeros((2, 3))}}
  np.testing.assert_array_equal(started(same, found)["decoder"]["kernel"], 8)
  assert "parameters that predict" not in caplog.text
  wider = {**params(), "decoder": {"kernel": jnp.zeros((2, 4))}}
  np.testing.assert_array_equal(started(wider, found)["decoder"]["kernel"], 0)
  assert (
    "parameters that are trained with the network are initialised"
    in caplog.text
  )


def test_every_family_starts_what_is_trained_with_it(caplog):
  """A ConvNeXt's decoder, too, when a file has the network alone."""
  keys = dict(name="convnext", variant="T", num_classes=3)
  model = named_sections.section("model", **keys)
  found = dataclasses.replace(weights(), model=model)
  here = {**params(), "decoder": {"kernel": jnp.zeros((2, 4))}}
  result = fitting.put(here, fitting.fit(here, found, model))
  np.testing.assert_array_equal(result["embedding"]["kernel"], 5)
  np.testing.assert_array_equal(result["decoder"]["kernel"], 0)
  assert "trained with the network are initialised: decoder" in caplog.text


@pytest.mark.parametrize(
  ("here", "words"),
  [
    (
      {"kernel": (2, 4), "bias": (3,)},
      "decoder of the file is not used: decoder/kernel is (2, 3) there and"
      " (2, 4) here.",
    ),
    (
      {"kernel": (2, 3)},
      "decoder of the file is not used: this network has no decoder/bias.",
    ),
    (
      {"kernel": (2, 3), "bias": (3,), "scale": (3,)},
      "decoder of the file is not used: the file has no decoder/scale.",
    ),
  ],
)
def test_what_does_not_fit_beside_the_network_is_named(here, words, caplog):
  decoder = {
    "kernel": np.ones((2, 3), np.float32),
    "bias": np.ones(3, np.float32),
  }
  found = dataclasses.replace(weights(), beside={"decoder": decoder})
  wanted = {name: jnp.zeros(shape) for name, shape in here.items()}
  started({**params(), "decoder": wanted}, found)
  assert words in caplog.text
  assert "are initialised: decoder." in caplog.text


def test_a_norm_after_the_pooling_starts_in_place_of_one_before_it(caplog):
  norm = {"scale": np.full(4, 3.0, np.float32), "bias": np.zeros(4, np.float32)}
  found = weights(Transformer={"encoder_norm": norm})
  fresh = {**params(), "fc_norm": jax.tree.map(jnp.ones_like, norm)}
  result = started(fresh, found)
  np.testing.assert_array_equal(result["fc_norm"]["scale"], 1)
  assert "norm_after_pool=True" in caplog.text
