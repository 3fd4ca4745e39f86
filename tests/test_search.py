"""The search command: what it finds, what it writes, and how it fails."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

import vit_jax
from tests import clip_checkpoint
from vit_jax import search
from vit_jax.errors import UserError

TEXTS = ["a dog on grass", "snow", "a red car at night"]
SIDE = 16


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
  path = tmp_path_factory.mktemp("clip") / "clip"
  clip_checkpoint.save(path)
  return path


def save_image(path, seed, side=SIDE):
  path.parent.mkdir(parents=True, exist_ok=True)
  rng = np.random.default_rng(seed)
  Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path):
  """Eight images of the size of the network, which nothing resizes."""
  for number in range(8):
    folder = "holiday" if number % 2 else "home"
    save_image(tmp_path / "photos" / folder / f"{number}.png", number)
  return tmp_path / "photos"


@pytest.fixture
def run(clip, tmp_path, capsys):
  """Runs the command; gives its exit code, stdout and stderr."""

  def run(*queries, checkpoint=clip, **options):
    capsys.readouterr()
    directory = str(tmp_path / "index")
    words = list(map(str, queries))
    code = search.search(str(checkpoint), directory, words, **options)
    return code, *capsys.readouterr()

  return run


def document(run, *queries, **options):
  code, out, _ = run(*queries, as_json=True, **options)
  assert code == 0
  return json.loads(out)


def cosines(clip, paths, texts=(), images=()):
  """[queries, paths], of what the network gives for texts, then images."""
  model, params = vit_jax.load(str(clip))

  def embed_images(files):
    pixels = np.stack([np.asarray(Image.open(path)) for path in files])
    return model.apply({"params": params}, pixels)["image_embedding"]

  queries = []
  if texts:
    tokens = vit_jax.load_tokenizer(str(clip))(list(texts))
    found = model.apply({"params": params}, text=tokens)
    queries.append(found["text_embedding"])
  if images:
    queries.append(embed_images(images))
  return np.concatenate(queries) @ np.asarray(embed_images(paths)).T


def check_results(results, paths, wanted):
  """Results are the best of the wanted scores of the paths."""
  order = np.argsort(-wanted)[: len(results)]
  assert [row["path"] for row in results] == [paths[i] for i in order]
  scores = [row["score"] for row in results]
  np.testing.assert_allclose(scores, wanted[order], atol=1e-5)


def test_texts_find_the_images_with_the_largest_cosines(run, clip, photos):
  paths = sorted(map(str, photos.rglob("*.png")))
  found = document(run, *TEXTS, images=str(photos), top_k=5)
  wanted = cosines(clip, paths, texts=TEXTS)
  assert len({tuple(row) for row in wanted.round(4)}) == len(TEXTS)
  assert [query["query"] for query in found["queries"]] == TEXTS
  for query, row in zip(found["queries"], wanted, strict=True):
    assert query["kind"] == "text" and len(query["results"]) == 5
    check_results(query["results"], paths, row)
  assert found["num_images"] == 8 and found["unreadable"] == []


def test_images_and_texts_are_answered_in_their_order(
  run, clip, photos, tmp_path
):
  paths = sorted(map(str, photos.rglob("*.png")))
  query = tmp_path / "query.png"
  save_image(query, seed=100)
  found = document(run, query, "snow", paths[3], images=str(photos))
  kinds = [query["kind"] for query in found["queries"]]
  assert kinds == ["image", "text", "image"]
  by_image = cosines(clip, paths, images=[query, paths[3]])
  (by_text,) = cosines(clip, paths, texts=["snow"])
  for answer, wanted in zip(
    found["queries"], [by_image[0], by_text, by_image[1]], strict=True
  ):
    check_results(answer["results"], paths, wanted)
  assert found["queries"][2]["results"][0]["path"] == paths[3]


def test_a_table_names_the_query_and_the_best_images(run, photos):
  code, out, _ = run("snow", images=str(photos), top_k=2)
  first, *rows, summary, wrote = out.splitlines()
  assert code == 0 and first == "snow" and len(rows) == 2
  assert all(re.fullmatch(r" +-?\d\.\d{3}  .*\.png", row) for row in rows)
  assert summary == f"8 images of {photos} are indexed."
  assert wrote.endswith("results.html")


def test_the_folder_is_named_once_and_its_changes_are_noticed(run, photos):
  run(images=str(photos))
  save_image(photos / "new.png", seed=50)
  (photos / "home" / "0.png").unlink()
  found = document(run, photos / "new.png")
  assert found["num_images"] == 8 and found["images"] == str(photos)
  assert found["queries"][0]["results"][0]["path"] == str(photos / "new.png")
  save_image(photos / "newer.png", seed=51)
  assert document(run, "snow", update=False)["num_images"] == 8
  assert document(run, "snow")["num_images"] == 9


def test_a_tilde_is_the_home_directory(clip, photos, tmp_path, monkeypatch):
  monkeypatch.setenv("HOME", str(tmp_path))
  monkeypatch.chdir(photos)
  places = {"images": "~/photos", "output": "~/page.html"}
  (tmp_path / "clip").symlink_to(clip)
  assert search.search("~/clip", "~/made", ["snow"], **places) == 0
  index = json.loads((tmp_path / "made" / "index.json").read_text())
  assert index["checkpoint"] == str(tmp_path / "clip")
  assert (tmp_path / "page.html").exists()
  assert not (photos / "~").exists()


def test_a_bad_image_is_named_and_the_others_are_found(run, photos):
  (photos / "bad.jpg").write_text("no image")
  code, out, _ = run("snow", images=str(photos))
  assert code == 0
  assert "8 images" in out and "1 left out" in out and "bad.jpg" in out
  found = document(run, "snow")
  assert [f["path"] for f in found["unreadable"]] == [str(photos / "bad.jpg")]
  assert "is damaged" in found["unreadable"][0]["problem"]
  assert len(found["queries"][0]["results"]) == 8


def test_a_link_that_leads_nowhere_is_listed_each_time(run, photos):
  (photos / "gone.jpg").symlink_to(photos / "nowhere.jpg")
  for _ in range(2):
    found = document(run, "snow", images=str(photos))
    (entry,) = found["unreadable"]
    assert entry["path"] == str(photos / "gone.jpg")
    assert "cannot be read (No such file" in entry["problem"]
    _, out, _ = run("snow")
    assert "1 left out" in out and "gone.jpg" in out


def test_the_page_shows_what_was_found_and_asks_for_nothing(
  run, photos, tmp_path
):
  run("<b>snow</b>", images=str(photos), output=str(tmp_path / "page.html"))
  page = (tmp_path / "page.html").read_text()
  assert page.count("data:image/jpeg;base64,") == 8
  assert "&lt;b&gt;snow&lt;/b&gt;" in page and "<b>snow" not in page
  assert not re.search(r'(src|href)="https?:', page)
  assert not (tmp_path / "index" / "results.html").exists()


def test_a_checkpoint_without_texts_finds_images_by_images(
  run, repo, photos, tmp_path
):
  vit = repo / "tests" / "golden" / "huggingface_vit"
  paths = sorted(map(str, photos.rglob("*.png")))
  found = document(run, paths[2], checkpoint=vit, images=str(photos))
  best = found["queries"][0]["results"][0]
  assert best["path"] == paths[2]
  assert best["score"] == pytest.approx(1, abs=1e-5)
  with pytest.raises(UserError, match="has no text tower"):
    run("snow", checkpoint=vit)


def test_another_checkpoint_is_refused(run, repo, photos):
  run(images=str(photos))
  with pytest.raises(UserError, match="made with the checkpoint .*clip, whose"):
    run(checkpoint=repo / "tests" / "golden" / "huggingface_siglip")


@pytest.mark.parametrize(
  ("queries", "options", "sentence"),
  [
    (["snow"], {}, "There is no index at"),
    (["snow"], {"images": "nowhere"}, "nowhere does not exist"),
    (["snow"], {"images": "."}, "holds no images"),
    ([" "], {"images": "PHOTOS"}, "A query is empty"),
    (["nowhere.jpg"], {"images": "PHOTOS"}, "there is none"),
    (["snow", "."], {"images": "PHOTOS"}, "The query . is a folder; name one"),
    ([__file__], {"images": "PHOTOS"}, "is not an image of a known kind"),
    (["snow"], {"images": "PHOTOS", "tokenizer": "no"}, "no tokenizer at no"),
    (
      ["snow"],
      {"images": "PHOTOS", "output": "no/a.html"},
      "cannot be written",
    ),
  ],
)
def test_bad_input_gets_a_sentence(
  run, photos, tmp_path, monkeypatch, queries, options, sentence
):
  (tmp_path / "empty").mkdir()
  monkeypatch.chdir(tmp_path / "empty")
  if options.get("images") == "PHOTOS":
    options = {**options, "images": str(photos)}
  with pytest.raises(UserError, match=re.escape(sentence)):
    run(*queries, **options)


def test_a_page_that_cannot_be_written_is_said_before_the_work(
  run, photos, tmp_path
):
  with pytest.raises(UserError, match="no directory .*/no; make it first"):
    run("snow", images=str(photos), output=str(tmp_path / "no" / "a.html"))
  assert not (tmp_path / "index").exists()
  # The directory of the index is made by the command.
  page = tmp_path / "index" / "snow.html"
  assert run("snow", images=str(photos), output=str(page))[0] == 0
  assert page.exists()


def test_a_checkpoint_without_its_tokenizer_says_so(
  run, repo, clip, photos, tmp_path
):
  copy = tmp_path / "copy"
  shutil.copytree(clip, copy)
  (copy / "tokenizer.json").unlink()
  with pytest.raises(UserError, match="Give one as --tokenizer=PATH"):
    run("snow", checkpoint=copy, images=str(photos))
  found = document(
    run, "snow", checkpoint=copy, images=str(photos), tokenizer=str(clip)
  )
  assert len(found["queries"][0]["results"]) == 8


def test_a_tokenizer_with_more_pieces_than_the_tower_is_refused(
  run, repo, photos
):
  larger = repo / "tests" / "golden" / "tokenizers" / "huggingface_siglip"
  with pytest.raises(UserError, match=r"has 1000 tokens, .* knows 814"):
    run("snow", images=str(photos), tokenizer=str(larger))


def test_a_tokenizer_with_fewer_pieces_than_the_tower_is_doubted(
  run, photos, caplog
):
  run("snow", images=str(photos), tokenizer="bytes")
  (line,) = [x for x in caplog.messages if "answers mean nothing" in x]
  assert "bytes has" in line and "knows 814" in line


def command(repo, *words, **options):
  return subprocess.Popen(
    [sys.executable, "-m", "vit_jax.search", *map(str, words)],
    env={**os.environ, "PYTHONPATH": str(repo)},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


@pytest.mark.parametrize(
  ("words", "sentence"),
  [
    (["snow"], "give --checkpoint=PATH"),
    (["--checkpoint=x", "snow"], "give --index=DIR"),
    (["--checkpoint=x", "--index=i", "--images=.", "snow"], "x does not exist"),
    (["--checkpoint=x", "--index=i", "--top_k=0", "snow"], "top_k"),
  ],
)
def test_what_is_missing_is_said_in_a_sentence(
  repo, tmp_path, monkeypatch, words, sentence
):
  monkeypatch.chdir(tmp_path)
  process = command(repo, *words)
  _, err = process.communicate()
  assert process.returncode == 1
  assert sentence in err and "Traceback" not in err


@pytest.mark.slow
def test_a_killed_command_continues_to_the_same_index(repo, clip, tmp_path):
  photos = tmp_path / "photos"
  photos.mkdir()
  # 512 images are a shard: several of them.
  for number in range(2600):
    save_image(photos / f"{number:04d}.png", number)

  def start(index):
    return command(
      repo, f"--checkpoint={clip}", f"--index={index}", f"--images={photos}"
    )

  whole, killed = tmp_path / "whole", tmp_path / "killed"
  assert start(whole).wait() == 0
  process = start(killed)
  while not (killed / "000001.json").exists():
    assert process.poll() is None
    time.sleep(0.01)
  process.send_signal(signal.SIGKILL)
  process.wait()
  num_kept = len(list(killed.glob("0*.json")))
  assert num_kept < len(list(whole.glob("0*.json")))
  process = start(killed)
  _, err = process.communicate()
  assert process.returncode == 0
  assert f"{2600 - num_kept * 512} images are to be embedded" in err

  def content(index: pathlib.Path):
    return {path.name: path.read_bytes() for path in index.iterdir()}

  assert content(whole) == content(killed)
