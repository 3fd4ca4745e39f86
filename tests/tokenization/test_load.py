"""Tokenizers of every form, against the ids of the programs they come from."""

import json
import pickle
import shutil
import subprocess
import sys
from concurrent import futures

import numpy as np
import pytest
import tokenizers

import vit_jax
from vit_jax.errors import UserError

FORMS = {
  "open_clip": "open_clip",
  "openai": "open_clip/bpe_simple_vocab_16e6.txt.gz",
  "huggingface_clip": "huggingface_clip",
  "huggingface_clip_old": "huggingface_clip_old",
  "huggingface_siglip": "huggingface_siglip",
  "open_clip_siglip": "open_clip_siglip",
  "huggingface_siglip2": "huggingface_siglip2",
}
every_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(scope="module")
def golden(repo):
  return repo / "tests/golden/tokenizers"


@pytest.fixture(scope="module")
def texts(golden):
  return json.loads((golden / "texts.json").read_text())


def expected(golden, form):
  return np.load(golden / f"{form}.npz")["ids"]


@every_form
def test_ids_equal_those_of_the_program_that_wrote_the_files(
  golden, texts, form
):
  tokenizer = vit_jax.load_tokenizer(golden / FORMS[form])
  ids = tokenizer(texts)
  assert ids.dtype == np.int32
  np.testing.assert_array_equal(ids, expected(golden, form))
  assert ids.max() < tokenizer.vocab_size
  assert tokenizer(texts[4]).tolist() == ids[4:5].tolist()


@every_form
def test_files_of_a_tokenizer_are_read_as_the_same_one(golden, form, tmp_path):
  tokenizer = vit_jax.load_tokenizer(golden / FORMS[form])
  for name, content in tokenizer.files.items():
    (tmp_path / name).write_bytes(content)
  again = vit_jax.load_tokenizer(tmp_path)
  assert again == tokenizer
  assert again.fingerprint == tokenizer.fingerprint
  assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer


@pytest.mark.parametrize(
  "path", ["model.safetensors", "pytorch_model.bin", "pytorch_model.bin/model"]
)
def test_the_tokenizer_of_weights_lies_in_their_folder(golden, tmp_path, path):
  folder = copied(golden, tmp_path, "huggingface_siglip")
  for name in ("model.safetensors", "pytorch_model.bin"):
    (folder / name).touch()
  assert vit_jax.load_tokenizer(folder / path) == vit_jax.load_tokenizer(folder)


def test_a_folder_of_missing_weights_is_not_searched(golden, tmp_path):
  folder = copied(golden, tmp_path, "huggingface_siglip")
  for name in ("model.safetensors", "model.pth/model"):
    assert "There is no tokenizer at" in refused(folder / name)


def test_fingerprint_tells_lengths_and_forms_apart(golden):
  found = [vit_jax.load_tokenizer(golden / path) for path in FORMS.values()]
  found.append(vit_jax.load_tokenizer(golden / "open_clip", length=9))
  # The two directories of transformers' CLIP hold different files.
  assert len({tokenizer.fingerprint for tokenizer in found}) == len(found)


def test_asked_length_cuts_and_keeps_the_end(golden):
  path = golden / "huggingface_clip"
  tokenizer = vit_jax.load_tokenizer(path, length=6)
  whole = vit_jax.load_tokenizer(path)("cat " * 500)[0]
  assert tokenizer.length == 6
  assert tokenizer("cat " * 500)[0].tolist() == [*whole[:5], whole[-1]]


LONG = "a cat on the grass with a red car and a dog"


def with_keys(folder, name, **values):
  content = json.loads((folder / name).read_text()) | values
  (folder / name).write_text(json.dumps(content))


@pytest.mark.parametrize("direction", ["Left", "Right"])
@pytest.mark.parametrize("alone", [True, False])
def test_texts_are_cut_on_the_side_that_tokenizer_json_states(
  golden, tmp_path, direction, alone
):
  folder = copied(golden, tmp_path, "huggingface_clip")
  (folder / "config.json").unlink()
  cut = dict(max_length=8, strategy="LongestFirst", stride=0)
  with_keys(
    folder, "tokenizer.json", truncation={**cut, "direction": direction}
  )
  library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
  path = folder / "tokenizer.json" if alone else folder
  (row,) = vit_jax.load_tokenizer(path)(LONG).tolist()
  assert row == library.encode(LONG).ids
  whole = vit_jax.load_tokenizer(path, length=77)(LONG)[0].tolist()
  assert row[-2] == whole[6 if direction == "Right" else 14]


def test_the_side_in_tokenizer_config_has_precedence(golden, tmp_path):
  folder = copied(golden, tmp_path, "huggingface_clip")
  tokens = vit_jax.load_tokenizer(folder, length=8)(LONG)[0].tolist()
  digest = vit_jax.load_tokenizer(folder).fingerprint
  with_keys(folder, "tokenizer_config.json", truncation_side="right")
  assert vit_jax.load_tokenizer(folder).fingerprint == digest
  with_keys(folder, "tokenizer_config.json", truncation_side="left")
  tokenizer = vit_jax.load_tokenizer(folder, length=8)
  # As transformers 5.23 gives them.
  ids = [812, 614, 64, 77, 323, 320, 643, 813]
  assert tokenizer(LONG)[0].tolist() == ids != tokens
  assert tokenizer.fingerprint != digest
  for name, content in tokenizer.files.items():
    (tmp_path / name).write_bytes(content)
  assert vit_jax.load_tokenizer(tmp_path) == tokenizer


# Rows of transformers 5.23's SiglipTokenizer for the two texts below.
_PLAIN = [[15, 13, 94, 101, 100, 69, 15, 1], [15, 13, *[1] * 6]]
OF_SIGLIP = [
  (
    {"truncation_side": "left"},
    [[109, 76, 15, 33, 80, 15, 92, 1], _PLAIN[1]],
  ),
  ({"padding_side": "left"}, [_PLAIN[0], [*[1] * 5, 15, 13, 1]]),
  ({"pad_token": "<unk>"}, [_PLAIN[0], [15, 13, 1, *[2] * 5]]),
  ({"eos_token": "<unk>"}, [[*_PLAIN[0][:-1], 2], [15, 13, 2, *[1] * 5]]),
  (
    {"eos_token": {"content": "<pad>", "__type": "AddedToken"}},
    [[*_PLAIN[0][:-1], 0], [15, 13, 0, *[1] * 5]],
  ),
  (
    {"do_lower_case": False},
    [[3, 73, 13, 94, 101, 100, 69, 1], [3, 73, 13, *[1] * 5]],
  ),
  ({}, _PLAIN),
]


@pytest.mark.parametrize("keys, rows", OF_SIGLIP)
def test_tokenizer_config_changes_a_spiece_model(golden, tmp_path, keys, rows):
  folder = copied(golden, tmp_path, "huggingface_siglip")
  (folder / "tokenizer_config.json").write_text(json.dumps(keys))
  tokenizer = vit_jax.load_tokenizer(folder, length=8)
  assert tokenizer([LONG.capitalize(), "A cat"]).tolist() == rows
  (tmp_path / "own").mkdir()
  for name, content in tokenizer.files.items():
    (tmp_path / "own" / name).write_bytes(content)
  assert vit_jax.load_tokenizer(tmp_path / "own") == tokenizer


@pytest.mark.parametrize(
  "name, file, key",
  [
    ("huggingface_siglip", "spiece.model", "eos_token"),
    ("huggingface_siglip", "spiece.model", "pad_token"),
    ("huggingface_clip", "tokenizer.json", "pad_token"),
    ("huggingface_clip_old", "vocab.json", "pad_token"),
  ],
)
def test_a_token_that_a_vocabulary_lacks_is_named(
  golden, tmp_path, name, file, key
):
  folder = copied(golden, tmp_path, name)
  (folder / "tokenizer_config.json").write_text(json.dumps({key: "<lacking>"}))
  message = refused(folder)
  assert f'{key} = "<lacking>" is not a token of {file},' in message


def test_a_length_that_padding_fixes_is_that_of_rows(golden, tmp_path):
  folder = copied(golden, tmp_path, "huggingface_clip")
  padding = dict(pad_id=813, pad_type_id=0, pad_token="<|endoftext|>")
  padding |= dict(strategy={"Fixed": 12}, direction="Right")
  with_keys(folder, "tokenizer.json", padding=padding)
  file = folder / "tokenizer.json"
  library = tokenizers.Tokenizer.from_file(str(file))
  found = vit_jax.load_tokenizer(file)("a cat").tolist()
  assert found == [library.encode("a cat").ids]


def test_no_captions_make_an_empty_array(golden):
  tokenizer = vit_jax.load_tokenizer(golden / "huggingface_siglip")
  assert tokenizer([]).shape == (0, 16)


def test_halves_of_characters_are_joined_or_replaced(golden):
  tokenizer = vit_jax.load_tokenizer(golden / "huggingface_clip")
  found = tokenizer(["a \ud83d\ude00", "a \ud83d"])
  np.testing.assert_array_equal(found, tokenizer(["a \U0001f600", "a \ufffd"]))


def test_model_of_siglip_alone_lowers_ascii_and_keeps_punctuation(golden):
  tf = pytest.importorskip("tensorflow")
  sentencepiece = pytest.importorskip("sentencepiece")
  path = golden / "huggingface_siglip/spiece.model"
  tokenizer = vit_jax.load_tokenizer(path, length=12)
  pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
  texts = ["A Cat, on GRASS!", "\u00c9CLAIR", "", "cat " * 40]
  for text, row in zip(texts, tokenizer(texts), strict=True):
    lowered = tf.strings.lower(text).numpy().decode()
    ids = [*pieces.encode(lowered)[:11], 1]
    assert row.tolist() == ids + [1] * (12 - len(ids))
  assert tokenizer.pad_id == 1


def test_model_of_gemma_alone_pads_with_its_padding(golden, texts):
  folder = golden / "huggingface_siglip2"
  by_model = vit_jax.load_tokenizer(folder / "tokenizer.model", length=24)
  by_json = vit_jax.load_tokenizer(folder)
  ascii_only = [text for text in texts if text.isascii() and "<" not in text]
  np.testing.assert_array_equal(by_model(ascii_only), by_json(ascii_only))


def test_tokenizer_json_alone_has_the_ends_it_states(golden, texts):
  folder = golden / "huggingface_clip"
  alone = vit_jax.load_tokenizer(folder / "tokenizer.json", length=24)
  whole = vit_jax.load_tokenizer(folder)
  np.testing.assert_array_equal(alone(texts), whole(texts))


@pytest.mark.parametrize(
  "file", ["huggingface_clip_old/merges.txt", "huggingface_clip/tokenizer.json"]
)
def test_open_clip_reads_the_merges_that_lie_there_for_transformers(
  golden, texts, tmp_path, file
):
  config = golden / "open_clip" / "open_clip_config.json"
  shutil.copy(config, tmp_path)
  shutil.copy(golden / file, tmp_path)
  ids = vit_jax.load_tokenizer(tmp_path)(texts)
  np.testing.assert_array_equal(ids, expected(golden, "open_clip"))


def test_threads_may_share_a_tokenizer(golden, texts):
  tokenizer = vit_jax.load_tokenizer(golden / "huggingface_siglip")
  with futures.ThreadPoolExecutor(4) as pool:
    found = list(pool.map(lambda _: tokenizer(texts), range(16)))
  for ids in found:
    np.testing.assert_array_equal(ids, expected(golden, "huggingface_siglip"))


def test_reading_a_tokenizer_imports_no_framework(golden):
  code = (
    "import sys, vit_jax\n"
    f"vit_jax.load_tokenizer({str(golden / 'huggingface_clip')!r})('a cat')\n"
    "heavy = {'jax', 'tensorflow', 'transformers', 'torch'}\n"
    "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
  )
  subprocess.run([sys.executable, "-c", code], check=True)


def copied(golden, tmp_path, form):
  return shutil.copytree(golden / form, tmp_path / form)


def refused(path) -> str:
  with pytest.raises(UserError) as raised:
    vit_jax.load_tokenizer(path)
  return str(raised.value)


def test_other_vocabulary_than_the_models_is_refused(golden, tmp_path):
  folder = copied(golden, tmp_path, "huggingface_clip")
  config = json.loads((folder / "config.json").read_text())
  config["text_config"]["vocab_size"] = 49408
  (folder / "config.json").write_text(json.dumps(config))
  message = refused(folder)
  assert "has 814 pieces" in message and "config.json is 49408" in message


@pytest.mark.parametrize(
  "name", ["a.txt.gz", "a.txt", "a.model", "tokenizer.json", "a.png"]
)
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, name):
  (tmp_path / name).write_bytes(b"\x89PNG not a tokenizer\n\xff\x00 one two")
  assert str(tmp_path / name) in refused(tmp_path / name)


def test_what_is_missing_is_named(golden, tmp_path):
  assert "There is no tokenizer at" in refused(tmp_path / "nowhere")
  assert "; give bpe_simple" in refused(tmp_path / "nowhere")
  assert "holds no tokenizer" in refused(tmp_path)
  folder = copied(golden, tmp_path, "huggingface_clip_old")
  (folder / "merges.txt").unlink()
  assert "needs merges.txt" in refused(folder)


def test_settings_of_open_clip_that_we_lack_are_refused(golden, tmp_path):
  folder = copied(golden, tmp_path, "open_clip")
  file = folder / "open_clip_config.json"
  config = json.loads(file.read_text())
  kwargs = config["model_cfg"]["text_cfg"]["tokenizer_kwargs"]
  kwargs["reduction_mask"] = "random"
  file.write_text(json.dumps(config))
  assert "reduction_mask" in refused(folder)


def test_a_length_without_room_for_text_is_refused(golden):
  with pytest.raises(UserError, match="no room for text"):
    vit_jax.load_tokenizer(golden / "huggingface_clip", length=2)
