"""Published Swins give what transformers and timm make of them."""

import dataclasses
import json
import re

import jax
import numpy as np
import pytest
from etils import epath
from safetensors.numpy import load_file

import vit_jax
from tests.weights.published import (
  GOLDEN,
  change,
  change_tensors,
  expected,
  outputs,
  outputs_at,
  relative_error,
)
from vit_jax.errors import UserError
from vit_jax.models.swin import sizes
from vit_jax.pretrained import save
from vit_jax.registry import FAMILIES
from vit_jax.weights import files, flat, surgery, tensors
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import huggingface, names, timm, timm_write
from vit_jax.weights.spellings.registry import ORIGINAL

HUGGING_FACE = ("huggingface_swin", "huggingface_swinv2")
TIMM = ("timm_swin", "timm_swinv2")
READERS = dict.fromkeys(HUGGING_FACE, huggingface) | dict.fromkeys(TIMM, timm)


@pytest.mark.parametrize("name", READERS)
def test_outputs_are_those_of_the_reference(name):
  wanted = expected(name)
  found = outputs(READERS[name].read(GOLDEN / name), wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5


@pytest.mark.parametrize("name", READERS)
def test_larger_images_give_what_the_reference_gives(name):
  """Hugging Face's are padded; in timm's more windows fit."""
  wanted = expected(name)
  (key,) = (key for key in wanted if key.startswith("images_"))
  size = wanted[key].shape[1]
  found = outputs_at(name, size, wanted[key])
  assert relative_error(found, wanted[f"outputs_{size}"]) < 1e-5


@pytest.mark.parametrize("name", READERS)
def test_form_and_sizes_are_told(name):
  weights = files.read(str(GOLDEN / name))
  model, is_timm = weights.model, name in TIMM
  size = sizes.swin(model)
  assert size == sizes.SwinSize(
    depths=(2, 2),
    num_heads=(2, 4),
    width=8,
    patch_size=4 if is_timm else 2,
    window_size=4,
    version=2 if "v2" in name else 1,
  )
  assert model.image_size == (32 if is_timm else 16)
  assert model.normalize == "imagenet"
  resize = "geometric" if is_timm else "bicubic"
  assert model.pos_embedding_resize == resize
  assert model.pad_before_shift is not is_timm
  names = ("ant", "bee", "cat: a pet", "dog", "eel")
  headless = name == "huggingface_swinv2"
  assert weights.class_names == (None if headless else names)
  assert model.pretrained_window_sizes == ((3, 0) if headless else None)
  assert weights.assumed == ()


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_written_directories_are_those_of_transformers(tmp_path, name):
  wanted = huggingface.read(GOLDEN / name)
  huggingface.write(tmp_path / "out", wanted)
  found = huggingface.read(tmp_path / "out")
  assert found.model == wanted.model
  assert found.class_names == wanted.class_names
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)
  theirs = tensors.read(epath.Path(GOLDEN / name))
  ours = load_file(tmp_path / "out" / tensors.FILE)
  assert ours.keys() == theirs.keys()
  for key, tensor in theirs.items():
    np.testing.assert_array_equal(ours[key], tensor)
  config, original = (
    json.loads((directory / "config.json").read_text())
    for directory in (tmp_path / "out", GOLDEN / name)
  )
  for key in config.keys() - {"drop_path_rate"}:
    assert original.get(key) in (None, config[key]), key


@pytest.mark.parametrize("name", TIMM)
def test_networks_of_timm_become_hugging_faces(tmp_path, name):
  wanted = expected(name)
  huggingface.write(tmp_path / "x", timm.read(GOLDEN / name))
  found = outputs(huggingface.read(tmp_path / "x"), wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5


@pytest.mark.parametrize("name", ["huggingface_swin", "timm_swinv2"])
def test_an_npz_keeps_everything(tmp_path, name):
  network, params = vit_jax.load(str(GOLDEN / name))
  vit_jax.save(str(tmp_path / "x.npz"), network, params)
  again, same = vit_jax.load(str(tmp_path / "x.npz"))
  assert again == network
  jax.tree.map(np.testing.assert_array_equal, same, params)


def test_buffers_of_older_files_are_skipped(copied):
  directory = copied("huggingface_swin")
  start = "swin.encoder.layers.0.blocks.1"
  buffers = {
    f"{start}.attention.self.relative_position_index": np.zeros((16, 16), int),
    f"{start}.attn_mask": np.zeros((4, 16, 16), np.float32),
  }
  change_tensors(directory, lambda found: found | buffers)
  huggingface.read(directory)


def test_names_of_newer_modules_are_understood(copied):
  directory = copied("huggingface_swin")
  newer = {
    ".attention.self.query.": ".attention.q_proj.",
    ".attention.self.key.": ".attention.k_proj.",
    ".attention.self.value.": ".attention.v_proj.",
    ".attention.output.dense.": ".attention.o_proj.",
    ".attention.self.relative": ".attention.relative_position_bias.relative",
    ".intermediate.dense.": ".mlp.fc1.",
    ".output.dense.": ".mlp.fc2.",
  }

  def rename(name):
    for old, new in newer.items():
      name = name.replace(old, new)
    return name

  change_tensors(directory, lambda x: {rename(n): a for n, a in x.items()})
  found = huggingface.read(directory)
  wanted = huggingface.read(GOLDEN / "huggingface_swin")
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


def test_other_windows_resize_the_position_biases():
  """As PyTorch's bicubic does, which the authors use; the rest stays."""
  weights = timm.read(GOLDEN / "timm_swin")
  wanted = weights.model.updated(
    image_size=48, window_size=6, pos_embedding_resize="bicubic"
  )
  shapes = FAMILIES.get("swin").shapes(wanted, 5)
  fitted = surgery.fit(weights, wanted, shapes)
  assert fitted.fresh == fitted.dropped == ()
  assert "windows of 4 x 4 are resized to 6 x 6" in " ".join(fitted.notes)
  found = dict(flat.flatten(fitted.params))
  table = found.pop("stage1/block01/attention/positions")
  np.testing.assert_allclose(
    table, expected("timm_swin")["positions_6"], rtol=1e-4, atol=1e-6
  )
  for name, leaf in flat.flatten(weights.params).items():
    if not name.endswith("positions"):
      np.testing.assert_array_equal(found[name], leaf)


def test_timms_tables_are_resized_as_timm_does():
  wanted = expected("timm_swin")
  found = outputs_at("timm_swin", 16, wanted["smaller"])
  assert relative_error(found, wanted["smaller_outputs"]) < 1e-5


def test_tables_are_resized_as_the_key_says():
  """Their default is bicubic; geometric is the way of timm's networks."""
  weights = timm.read(GOLDEN / "timm_swin")
  name = "stage1/block01/attention/positions"

  def resized(method):
    wanted = weights.model.updated(
      image_size=48, window_size=5, pos_embedding_resize=method
    )
    shapes = FAMILIES.get("swin").shapes(wanted, 5)
    fitted = surgery.fit(weights, wanted, shapes)
    return dict(flat.flatten(fitted.params))[name], " ".join(fitted.notes)

  (usual, said), (bicubic, _) = resized("bilinear"), resized("bicubic")
  np.testing.assert_array_equal(usual, bicubic)
  assert "to 5 x 5 (bicubic)" in said
  table, said = resized("geometric")
  assert "to 5 x 5 (geometric)" in said
  # Three offsets to either side of 0 reach four, by steps that grow by q.
  q = np.roots([1, 1, 1 - 4]).max()
  at = np.cumsum(q ** np.arange(3))
  at = np.concatenate([-at[::-1], [0], at])
  old = dict(flat.flatten(weights.params))[name].reshape(7, 7, -1)
  new = np.arange(-4, 5)
  for _ in range(2):  # Rows, then columns.
    old = np.apply_along_axis(lambda x: np.interp(new, at, x), 0, old)
    old = old.swapaxes(0, 1)
  np.testing.assert_allclose(table, old.reshape(81, -1), rtol=1e-4, atol=1e-5)


def test_computed_biases_take_any_window():
  weights = timm.read(GOLDEN / "timm_swinv2")
  wanted = weights.model.updated(image_size=48, window_size=6)
  shapes = FAMILIES.get("swin").shapes(wanted, 5)
  fitted = surgery.fit(weights, wanted, shapes)
  assert fitted.notes == ()
  jax.tree.map(np.testing.assert_array_equal, fitted.params, weights.params)


@pytest.mark.parametrize("name", TIMM)
@pytest.mark.parametrize("key", ["act_layer", "global_pool"])
def test_an_argument_of_timm_that_swins_lack_is_refused(copied, name, key):
  directory = copied(name)
  change(directory, model_args={key: "max"})
  with pytest.raises(UserError, match=f'{key} = "max" is not'):
    timm.read(directory)


@pytest.mark.parametrize(
  "architecture, window, pretrained",
  [
    ("swinv2_tiny_window4_256", 4, None),
    ("swinv2_base_window12to16_192to256", 16, (12, 12, 12, 6)),
    ("swinv2_large_window12to24_192to384.ms_in22k", 24, (12, 12, 12, 6)),
  ],
)
def test_names_of_timm_tell_the_windows(
  copied, architecture, window, pretrained
):
  directory = copied("timm_swinv2")
  change(directory, architecture=architecture, model_args={})
  model = timm.read(directory).model
  assert model.window_size == window
  assert model.pretrained_window_sizes == pretrained


def test_a_lone_file_says_what_is_assumed(copied):
  directory = copied("timm_swinv2")
  (directory / "config.json").unlink()
  weights = timm.read(directory / "model.safetensors")
  said = " ".join(weights.assumed)
  for words in ("model.window_size=8", "64 pixels", "model.normalize="):
    assert words in said


@pytest.mark.parametrize(
  "name, values, words",
  [
    ("huggingface_swin", {"hidden_act": "relu"}, ["hidden_act", "'gelu'"]),
    ("huggingface_swin", {"depths": [2, 4]}, ["depths", "[2, 2]"]),
    ("huggingface_swin", {"num_heads": [4, 4]}, ["num_heads", "[2, 4]"]),
    ("huggingface_swin", {"window_size": 7}, ["window_size", "is not 4"]),
    ("huggingface_swin", {"mlp_ratio": 2.0}, ["mlp_ratio", "is not 4.0"]),
    (
      "huggingface_swin",
      {"use_absolute_embeddings": True},
      ["use_absolute_embeddings"],
    ),
    ("timm_swin", {"global_pool": "max"}, ["global_pool", "'avg'"]),
    ("timm_swin", {"architecture": "swin_s3_tiny_224"}, ["swin_s3_tiny_224"]),
    (
      "timm_swin",
      {"model_args": {"always_partition": True}},
      ["always_partition", "understood"],
    ),
  ],
)
def test_another_network_is_refused(copied, name, values, words):
  directory = copied(name)
  change(directory, **values)
  with pytest.raises(UserError) as caught:
    READERS[name].read(directory)
  for word in words:
    assert word in str(caught.value)


@pytest.mark.parametrize("name", READERS)
def test_a_network_without_qkv_bias_has_biases_of_zeros(copied, name):
  """The weighted sums are the same."""
  directory = copied(name)
  pattern = re.compile(
    r".*\.(self\.(query|key|value)\.bias|attn\.(qkv\.bias|[qv]_bias))"
  )

  def zeros(tensors):
    assert any(map(pattern.fullmatch, tensors))
    return {n: 0 * x if pattern.fullmatch(n) else x for n, x in tensors.items()}

  change_tensors(directory, zeros)
  wanted = READERS[name].read(directory)
  change_tensors(
    directory,
    lambda x: {n: one for n, one in x.items() if not pattern.fullmatch(n)},
  )
  is_timm = name in TIMM
  keys = {"model_args": {"qkv_bias": False}} if is_timm else {"qkv_bias": False}
  change(directory, **keys)
  found = READERS[name].read(directory)
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


@pytest.mark.parametrize("name", READERS)
def test_biases_that_a_config_promises_are_missed(copied, name):
  directory = copied(name)
  pattern = re.compile(
    r".*\.(self\.(query|key|value)\.bias|attn\.(qkv\.bias|[qv]_bias))"
  )
  change_tensors(
    directory,
    lambda x: {n: one for n, one in x.items() if not pattern.fullmatch(n)},
  )
  with pytest.raises(UserError, match="qkv_bias is true.*no biases of quer"):
    READERS[name].read(directory)


def test_a_lone_missing_bias_is_missed(copied):
  """Zeros are taken for all of a network's biases or for none."""
  directory = copied("huggingface_swin")
  name = "swin.encoder.layers.0.blocks.1.attention.self.query.bias"
  change_tensors(
    directory, lambda x: {n: one for n, one in x.items() if n != name}
  )
  with pytest.raises(UserError, match="query.bias"):
    huggingface.read(directory)


def test_windows_that_transformers_lacks_are_named(tmp_path):
  weights = timm.read(GOLDEN / "timm_swin")
  model = weights.model.updated(image_size=16)
  smaller = Weights(path="x", model=model, params=weights.params)
  with pytest.raises(UserError, match="smaller than.*window_size=4.*NAME.npz"):
    huggingface.write(tmp_path / "x", smaller)


@pytest.mark.parametrize(
  "image_size, window, depths, fits",
  [
    (24, 8, (1, 1), True),
    (22, 8, (1, 1), False),  # The second map is 6 places wide, 5 for them.
    (22, 4, (2, 2), True),
    (22, 5, (2, 2), False),  # Windows of 5 move over 6 places, not over 5.
    (22, 5, (2, 1), True),
    (6, 8, (1, 1), False),  # 2 places, 1 for them.
  ],
)
def test_windows_of_version_2_that_transformers_rounds_down_are_refused(
  image_size, window, depths, fits
):
  model = huggingface.read(GOLDEN / "huggingface_swinv2").model
  keys = dict(image_size=image_size, window_size=window, depths=depths)
  model = model.updated(**keys, pretrained_window_sizes=None)
  if fits:
    huggingface.check(model)
  else:
    named = f"(?s)image_size={image_size}, .*multiple of 4.*such as"
    with pytest.raises(UserError, match=named):
      huggingface.check(model)


def test_a_file_of_windows_that_transformers_rounds_down_is_refused(copied):
  directory = copied("huggingface_swinv2")
  change(directory, image_size=22, window_size=8)
  with pytest.raises(UserError, match=r"stage 2 .*image_size=22, .*such as 24"):
    huggingface.read(directory)


def test_an_order_of_padding_that_a_form_lacks_is_named(tmp_path):
  """It has either where windows fit, as at 32 pixels."""
  weights = timm.read(GOLDEN / "timm_swin")
  for is_first, form in ((True, timm_write), (False, huggingface)):
    keys = dict(pad_before_shift=is_first)
    fitting = weights.model.updated(**keys)
    written = tmp_path / form.__name__
    form.write(written, dataclasses.replace(weights, model=fitting))
    padded = weights.model.updated(**keys, image_size=36)
    named = f"model.pad_before_shift={is_first} at model.image_size=36"
    with pytest.raises(UserError, match=named):
      form.check(padded)
    form.check(padded.updated(pad_before_shift=not is_first))
  padded = weights.model.updated(pad_before_shift=False, image_size=36)
  assert save.directory_form(padded)[0] == "timm"


def test_a_missing_block_is_a_table(copied):
  directory = copied("timm_swin")
  left_out = "layers.1.blocks.0.mlp.fc1"
  change_tensors(
    directory,
    lambda found: {
      name: x for name, x in found.items() if not name.startswith(left_out)
    },
  )
  with pytest.raises(UserError, match=f"(?s)Swin.*{left_out}.weight"):
    timm.read(directory)


def by_the_authors(tensors):
  """timm's tensors by the names of microsoft/Swin-Transformer."""

  def rename(name):
    name = name.replace("head.fc", "head")
    before = {f"layers.{i + 1}.down": f"layers.{i}.down" for i in range(3)}
    for new, old in before.items():
      name = name.replace(new, old)
    return name

  found = {rename(name): tensor for name, tensor in tensors.items()}
  index = np.zeros((16, 16), np.float32)
  return found | {"layers.0.blocks.1.attn.relative_position_index": index}


@pytest.mark.parametrize("name", TIMM)
def test_the_authors_names_are_understood(name):
  theirs = by_the_authors(load_file(GOLDEN / name / "model.safetensors"))
  path = "runs/swin_tiny_patch4_window4_32.pth"
  record, notes = ORIGINAL.get("swin"), []
  assert record.names.required[0] in theirs
  found = record.prepare(theirs, path, notes)
  said = record.said(found, path, notes)
  model, params, _ = names.read(path, found, record.names, said)
  wanted = timm.read(GOLDEN / name)
  # Their detectors, which alone pad maps, do so before windows move.
  assert model == wanted.model.updated(
    pad_before_shift=True, pos_embedding_resize="bicubic"
  )
  jax.tree.map(np.testing.assert_array_equal, params, wanted.params)


def test_the_authors_file_names_tell_two_trainings():
  path = "swinv2_base_patch4_window12to16_192to256_22kto1k_ft.pth"
  tensors = {"layers.0.blocks.0.attn.logit_scale": np.zeros((4, 1, 1))}
  said = ORIGINAL.get("swin").said(tensors, path, [])
  assert said["image_size"] == 256
  assert said["window_size"] == 16
  assert said["pretrained_window_sizes"] == (12, 12, 12, 6)


def test_the_authors_tensors_are_not_taken_for_timms(copied):
  directory = copied("timm_swin")
  change_tensors(directory, by_the_authors)
  with pytest.raises(UserError, match=r"authors' names.*original \.pth"):
    timm.read(directory)


@pytest.mark.parametrize(
  "keys, words",
  [
    (dict(depths=(2, 4)), ["stage2/block03", "config.model.depths"]),
    (dict(num_heads=(4, 4)), ["attention/positions", "config.model.num_heads"]),
    (dict(width=16), ["attention/queries/kernel", "config.model.width"]),
    (dict(version=2), ["attention/log_scale", "config.model.version"]),
  ],
)
def test_a_misfit_names_the_key_that_decides(keys, words):
  weights = timm.read(GOLDEN / "timm_swin")
  wanted = weights.model.updated(**keys)
  shapes = FAMILIES.get("swin").shapes(wanted, 5)
  with pytest.raises(UserError) as caught:
    surgery.fit(weights, wanted, shapes)
  for word in words:
    assert word in str(caught.value)
