import io
import os
import pathlib
import shutil

import numpy as np
import pytest
from PIL import Image

from vit_jax.data import (
  encoded,
  features,
  folder,
  image_formats,
  integrity,
  sources,
  spec,
)
from vit_jax.data.host_batches import HostBatches
from vit_jax.errors import UserError


def _picture(seed=0, form="JPEG", **options):
  pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
  file = io.BytesIO()
  Image.fromarray(pixels).save(file, form, **options)
  return file.getvalue()


def _fill(root, files):
  """Writes {path: content or None for a picture} below `root`."""
  for seed, (name, content) in enumerate(files.items()):
    path = pathlib.Path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_picture(seed) if content is None else content)


def _open(root, split="train"):
  return folder.open_source("", split, data_dir=str(root))


def _everything(source):
  ids = np.arange(source.num_examples)
  return dict(zip(source.names(ids), source.read(ids)["image"], strict=True))


@pytest.fixture
def pets(tmp_path):
  files = {
    f"train/{c}/{i}.jpg": None for c in ("cat", "dog") for i in range(20)
  }
  files |= {"val/dog/1.jpg": None, "val/dog/2.jpg": None}
  files |= {"test/cat/1.jpg": None, "test/dog/1.jpg": None}
  _fill(tmp_path, files)
  return tmp_path


def test_read_returns_the_files_bytes_and_labels(pets):
  source = _open(pets)
  assert source.num_examples == 40
  assert source.num_classes == 2
  assert source.class_names == ("cat", "dog")
  assert source.max_labels == 1 and source.image_shape is None
  ids = np.array([7, 0, 39, 7])
  batch = source.read(ids)
  assert batch["label"].dtype == np.int32
  for path, image, label in zip(
    source.names(ids), *batch.values(), strict=True
  ):
    assert image == pathlib.Path(path).read_bytes()
    assert pathlib.Path(path).parent.name == source.class_names[label]


def test_all_splits_share_one_class_map(pets):
  source = _open(pets, "val")
  assert source.num_classes == 2
  assert source.read(np.arange(2))["label"].tolist() == [1, 1]


def test_class_that_train_lacks_keeps_the_map_shared(pets, caplog):
  _fill(pets, {"test/ape/1.jpg": None})
  for split in ("train", "val", "test"):
    assert _open(pets, split).class_names == ("ape", "cat", "dog")
  assert caplog.text.count("cannot be learned: ape") == 1


def test_classes_that_differ_in_capital_letters_are_named_once(pets, caplog):
  _fill(pets, {"train/Cat/1.jpg": None})
  for _ in range(2):
    assert _open(pets).class_names == ("Cat", "cat", "dog")
  (line,) = caplog.messages
  assert "Cat and cat are different classes" in line


def test_classes_that_differ_in_other_letters_are_not_named(pets, caplog):
  _fill(pets, {"train/Masse/1.jpg": None, "train/Maße/1.jpg": None})
  assert _open(pets).class_names == ("Masse", "Maße", "cat", "dog")
  assert not caplog.messages


def test_all_suffixes_are_found_in_any_case(tmp_path):
  names = ["a.jpg", "b.JPEG", "c.png", "d.webp", "e.bmp", "f.PNG"]
  names += ["g.gif", "h.tif", "i.TIFF", "j.avif", "k.heic"]
  forms = ["JPEG", "JPEG", "PNG", "WEBP", "BMP", "PNG"]
  forms += ["GIF", "TIFF", "TIFF", "AVIF", "HEIF"]
  files = {
    f"train/x/{name}": _picture(form=form)
    for name, form in zip(names, forms, strict=True)
  }
  _fill(tmp_path, files | {"train/y/a.jpg": None})
  found = {pathlib.Path(path).name for path in _everything(_open(tmp_path))}
  assert found == set(names)


def test_other_files_are_counted_by_kind_once(pets, caplog):
  junk = ["cat/a.txt", "dog/b.TXT", "cat/c.mov", "LICENSE", "cat/.DS_Store"]
  _fill(pets, {f"train/{name}": b"x" for name in junk})
  _fill(pets, {"train/.cache/1.jpg": None, "train/cat/more/1.jpg": None})
  for _ in range(2):
    assert _open(pets).class_names == ("cat", "dog")
  (line,) = caplog.messages
  counts = "2 .txt, 1 .mov, 1 folder, 1 without a suffix"
  found, _, rest = line.partition("read: ")[2].partition(". ")
  assert set(found.split(", ")) == set(counts.split(", "))
  assert rest.startswith("Folders inside those of classes are not read")


def test_images_in_folders_inside_that_of_a_class_are_to_be_moved(pets):
  _fill(pets, {f"train/ape/{folder}/1.jpg": None for folder in "ab"})
  with pytest.raises(
    UserError, match=r"without any image: ape\..* move their images up\."
  ):
    _open(pets)


def test_a_format_that_a_package_reads_is_named_with_it(
  pets, caplog, monkeypatch
):
  monkeypatch.setattr(image_formats, "_READS_HEIF", False)
  monkeypatch.setattr(image_formats, "SUFFIXES", (".jpg",))
  _fill(pets, {"train/cat/a.HEIC": b"x", "train/ape/b.heic": b"x"})
  advice = ".heic is readable after `pip install pillow-heif`."
  with pytest.raises(UserError, match="without any image: ape") as error:
    _open(pets)
  assert advice in str(error.value)
  assert "2 .heic" in caplog.text and advice in caplog.text


def test_a_folder_of_classes_is_one_split(tmp_path, caplog):
  _fill(tmp_path, {f"{c}/{i}.jpg": None for c in "ab" for i in range(10)})
  (tmp_path / "empty").mkdir()
  _fill(tmp_path, {"other/more/1.jpg": None, "read.me": b"x"})
  whole, part = _open(tmp_path), _open(tmp_path, "train[:80%]")
  assert (whole.num_examples, part.num_examples) == (20, 16)
  assert whole.class_names == ("a", "b")
  assert f"{tmp_path}/a/3.jpg" in whole.names(np.arange(20))
  assert "one split, 'train', of which 'train[:80%]' is a part" in caplog.text
  with pytest.raises(UserError, match=r"no split 'test'.*'train\[80%:\]'"):
    _open(tmp_path, "test")


def test_links_that_lead_out_are_followed_if_the_dataset_says_so(
  pets, tmp_path_factory
):
  elsewhere = tmp_path_factory.mktemp("elsewhere")
  _fill(elsewhere, {"ape/1.jpg": None})
  (pets / "train/ape").symlink_to(elsewhere / "ape")
  with pytest.raises(UserError, match="folder:links=anywhere"):
    _open(pets)
  source = sources.open_source(
    "folder:links=anywhere", "train", data_dir=str(pets)
  )
  assert source.class_names == ("ape", "cat", "dog")
  assert source.num_examples == 41
  source.read(np.arange(41))
  with pytest.raises(UserError, match="'folder:links=no': write 'folder'"):
    sources.check("folder:links=no")


@pytest.mark.parametrize("name", ["val", "valid", "validation"])
def test_a_split_to_validate_on_has_several_names(pets, name):
  (pets / "val").rename(pets / name)
  assert _open(pets, name).num_examples == 2


def test_slices_hold_every_class_and_do_not_overlap(pets):
  first, rest = _open(pets, "train[:50%]"), _open(pets, "train[50%:]")
  assert 0.2 < first.read(np.arange(20))["label"].mean() < 0.8
  assert not set(_everything(first)) & set(_everything(rest))
  assert _everything(first) | _everything(rest) == _everything(_open(pets))


def test_order_does_not_depend_on_where_the_folder_is(pets, tmp_path_factory):
  other = tmp_path_factory.mktemp("other")
  for path in sorted(pets.rglob("*.jpg"), reverse=True):
    _fill(other, {str(path.relative_to(pets)): path.read_bytes()})
  one, two = _open(pets), _open(other)
  assert one.fingerprint == two.fingerprint
  assert list(_everything(one).values()) == list(_everything(two).values())


def test_fingerprint_changes_with_split_files_and_classes(pets):
  prints = [_open(pets).fingerprint, _open(pets, "train[:50%]").fingerprint]
  (pets / "train/cat/0.jpg").rename(pets / "train/cat/new.jpg")
  prints.append(_open(pets).fingerprint)
  _fill(pets, {"val/ape/1.jpg": None})
  prints.append(_open(pets).fingerprint)
  assert len(set(prints)) == 4


def test_not_set_or_missing_data_dir_is_a_sentence(tmp_path):
  with pytest.raises(UserError, match="config.data_dir is not set"):
    folder.open_source("", "train", data_dir=None)
  with pytest.raises(UserError, match="nowhere cannot be listed"):
    _open(tmp_path / "nowhere")


def test_folder_without_images_says_where_they_are_looked_for(tmp_path):
  _fill(tmp_path, {"photos/roses/1.jpg": None, "tulips/1.txt": b"x"})
  with pytest.raises(UserError) as error:
    _open(tmp_path)
  assert "train/CLASS/*.{jpg,png,webp," in str(error.value)
  assert "or as CLASS/*.{jpg,png,webp," in str(error.value)
  assert "Folders found there: photos, tulips." in str(error.value)


def test_one_class_is_a_sentence(tmp_path):
  _fill(tmp_path, {"train/cat/1.jpg": None})
  with pytest.raises(UserError, match="one class, 'cat'"):
    _open(tmp_path)


def test_a_class_whose_name_is_not_utf8_is_to_be_renamed(pets):
  os.mkdir(os.path.join(os.fsencode(pets), b"train/caf\xe9"))
  shutil.copy(
    next(pets.rglob("*.jpg")), os.fsencode(pets) + b"/train/caf\xe9/1.jpg"
  )
  with pytest.raises(UserError, match="class folder caf\ufffd is not in UTF-8"):
    _open(pets)
  assert _open_unlabelled(pets).num_examples


def _open_unlabelled(root, split="train", more=""):
  return sources.open_source(
    f"folder:labels=none{more}", split, data_dir=str(root)
  )


def _relative(source, root):
  ids = np.arange(source.num_examples)
  return sorted(os.path.relpath(path, root) for path in source.names(ids))


def test_without_labels_images_may_lie_at_any_depth(tmp_path):
  found = ["train/1.jpg", "train/2019/01/2.png", "train/all/3.jpg", "val/4.jpg"]
  _fill(tmp_path, dict.fromkeys([*found, "other/5.jpg", "train/.t/6.jpg"]))
  source = _open_unlabelled(tmp_path)
  assert _relative(source, tmp_path) == sorted(found[:3])
  assert _relative(_open_unlabelled(tmp_path, "val"), tmp_path) == found[3:]
  assert source.num_classes is source.known_labels() is None
  assert source.max_labels == 0 and set(source.features) == {"image"}
  for read in source.read, source.read_or_locate:
    assert "label" not in read(np.array([2, 0]))
  names = source.names(np.array([2, 0]))
  images = source.read(np.array([2, 0]))["image"]
  assert [pathlib.Path(n).read_bytes() for n in names] == list(images)


def test_a_folder_of_nothing_but_images_is_one_split(tmp_path, caplog):
  _fill(tmp_path, {**dict.fromkeys(["1.jpg", "a/2.jpg"]), "3.txt": b"x"})
  assert _relative(_open_unlabelled(tmp_path), tmp_path) == ["1.jpg", "a/2.jpg"]
  assert "its images are one split, 'train'" in caplog.text
  assert "ignored what is not an image that can be read: 1 .txt" in caplog.text


def test_without_labels_fingerprints_differ_from_those_of_classes(pets):
  source = _open_unlabelled(pets)
  assert _relative(source, pets) == _relative(_open(pets), pets)
  assert source.fingerprint != _open(pets).fingerprint
  assert source.fingerprint == _open_unlabelled(pets).fingerprint


def test_folders_that_link_in_a_circle_are_read_once(tmp_path):
  _fill(tmp_path, dict.fromkeys(["a/1.jpg", "a/b/2.jpg"]))
  (tmp_path / "a/b/up").symlink_to(tmp_path / "a")
  (tmp_path / "z").symlink_to(tmp_path / "a/b")
  source = _open_unlabelled(tmp_path)
  assert source.num_examples == 2


def test_both_arguments_may_be_given(tmp_path, tmp_path_factory):
  elsewhere = tmp_path_factory.mktemp("elsewhere")
  _fill(elsewhere, {"deep/1.jpg": None})
  (tmp_path / "more").symlink_to(elsewhere)
  with pytest.raises(UserError, match="which is outside"):
    _open_unlabelled(tmp_path)
  source = _open_unlabelled(tmp_path, more=",links=anywhere")
  assert _relative(source, tmp_path) == ["more/deep/1.jpg"]


@pytest.mark.parametrize("name", ["1.jpg", "train/1.jpg", "train/all/1.jpg"])
def test_images_without_classes_are_told_how_to_be_read(tmp_path, name):
  _fill(tmp_path, {name: None})
  with pytest.raises(UserError, match="'folder:labels=none', which takes"):
    _open(tmp_path)


def test_without_any_image_the_places_are_named(tmp_path):
  _fill(tmp_path, {"a/b/1.txt": b"x"})
  with pytest.raises(UserError, match="in it and in all folders below"):
    _open_unlabelled(tmp_path)


def test_classes_without_any_image_are_named(pets):
  for name in ("train/ape", "train/bee"):
    (pets / name).mkdir()
  with pytest.raises(UserError, match="without any image: ape, bee"):
    _open(pets)


def test_missing_split_names_those_that_are_there(pets):
  with pytest.raises(UserError, match=r"train \(40 examples\), val \(2 exam"):
    _open(pets, "validation")


def test_splits_in_other_letters_are_named(pets, tmp_path_factory, caplog):
  (pets / "test").rename(pets / "Test")
  assert _open(pets).num_examples == 40
  sentence = "Names of splits are in lower case: rename Test to test."
  assert sentence in caplog.text
  both = tmp_path_factory.mktemp("both")
  _fill(both, {"Train/cat/1.jpg": None, "TEST/cat/1.jpg": None})
  with pytest.raises(UserError, match="rename TEST to test, rename Train to"):
    _open(both)
  _fill(both, {"train/cat/1.jpg": None, "train/dog/1.jpg": None})
  _open(both)
  assert "rename TEST to test, move the images of Train to train" in caplog.text


def test_unreadable_files_are_named_in_one_list(pets, monkeypatch):
  monkeypatch.setattr(integrity, "_SECONDS", float("inf"))
  half = _picture()[:300]
  _fill(pets, {"train/cat/a.jpg": b"", "train/dog/b.png": b"<html>"})
  _fill(pets, {"train/dog/c.jpg": half, "test/dog/not_asked_for.jpg": b""})
  with pytest.raises(UserError) as error:
    _open(pets)
  message = str(error.value)
  assert message.startswith("3 of the images cannot be read (all 43 were")
  assert f"{pets}/train/cat/a.jpg (empty file)" in message
  assert f"{pets}/train/dog/b.png (damaged)" in message
  assert f"{pets}/train/dog/c.jpg (damaged)" in message


def test_image_of_another_form_than_its_suffix_is_welcome(pets):
  _fill(pets, {"train/cat/tiff.jpg": _picture(form="TIFF")})
  assert _open(pets).num_examples == 41


def test_file_that_vanishes_during_the_run_is_named(pets):
  source = _open(pets)
  path = pathlib.Path(source.names(np.array([5]))[0])
  path.unlink()
  with pytest.raises(UserError, match=f"{path.name} cannot be read"):
    source.read(np.arange(8))


def test_cifar10_folder_opens(shared, tmp_path):
  import tarfile

  with tarfile.open(shared / "data/cifar10.tar.gz") as archive:
    wanted = [m for m in archive if "/test/" in m.name and m.isfile()]
    archive.extractall(tmp_path, wanted, filter="data")
  source = _open(tmp_path / "cifar10", "test")
  assert source.num_examples == 5000 and source.num_classes == 10
  counts = np.bincount(source.read(np.arange(5000))["label"])
  assert counts.tolist() == [500] * 10


def _names(source):
  paths = source.names(np.arange(source.num_examples))
  return ["/".join(pathlib.Path(path).parts[-2:]) for path in paths]


def _located(source):
  """What `read_or_locate` gives of each record: class/file -> (image, form)."""
  ids = np.arange(source.num_examples)
  record = source.read_or_locate(ids)
  assert np.array_equal(record["label"], source.read(ids)["label"])
  pairs = zip(record["image"], record["form"].tolist(), strict=True)
  return dict(zip(_names(source), pairs, strict=True))


def test_upright_jpegs_are_left_to_tensorflow_and_others_are_read(pets):
  turned, long = Image.Exif(), b"\xff\xe2" + (20_000).to_bytes(2, "big")
  turned[0x0112] = 6
  plain, quarter = _picture(), _picture(exif=turned)
  middle = b"\xff\xe2" + (5_000).to_bytes(2, "big") + bytes(4_998)
  upright = plain[:2] + middle + plain[2:]
  _fill(pets, {"train/cat/upright.jpg": upright})
  files = {
    "turned.jpg": quarter,
    "turned_late.jpg": quarter[:2] + middle + quarter[2:],
    "caf\u00e9.jpg": plain,
    # A header that goes on beyond what is looked at, and may turn the image.
    "long.jpg": plain[:2] + long + bytes(19_998) + plain[2:],
    "a.png": _picture(form="PNG"),
    "cut.jpg": plain[:3],
  }
  _fill(pets, {f"train/cat/{name}": data for name, data in files.items()})
  located = _located(folder.scan("train", str(pets)))
  for name, data in files.items():
    assert located.pop(f"cat/{name}") == (data, encoded.form(data)), name
  assert len(located) == 41
  for name, (path, form) in located.items():
    assert path.decode() == f"{pets}/train/{name}"
    assert form == encoded.UPRIGHT_JPEG_FILE


def test_batches_are_the_same_whoever_reads_the_files(pets, memory_source):
  _fill(pets, {"train/dog/extra.png": _picture(form="PNG")})
  source = folder.scan("train", str(pets))
  record = source.read(np.arange(41))
  in_memory = memory_source(record["image"].tolist(), record["label"])

  def first_batch(source):
    return next(
      HostBatches(
        source,
        features.of_images(spec.parse("decode|inception_crop", 16)),
        order=lambda rows: rows % 41,
        local_rows=np.arange(41),
        batch_size=41,
        first_row=0,
        seed=3,
      )
    )

  ours, expected = first_batch(source), first_batch(in_memory)
  assert np.array_equal(ours["image"], expected["image"])
  assert np.array_equal(ours["label"], expected["label"])


def test_a_file_that_vanishes_is_named(pets):
  source = folder.scan("train", str(pets))
  (gone,) = source.names(np.array([5]))
  pathlib.Path(gone).unlink()
  with pytest.raises(UserError, match=f"{gone} cannot be read"):
    source.read_or_locate(np.arange(10))
