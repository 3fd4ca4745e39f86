"""Tar files of images and captions."""

import gzip
import io
import json
import lzma
import os
import re
import tarfile

import numpy as np
import pytest

from tests.data.test_captions import (
  BATCH,
  host_batches,
  picture,
  take,
)
from tests.data.test_host_batches import assert_equal
from vit_jax.data import image_formats, order, sources, targets
from vit_jax.data.webdataset import source as webdataset
from vit_jax.data.webdataset import tar_index
from vit_jax.errors import UserError

PATTERN = "part-{00..02}.tar"
NUM_EACH = 5


def write_tar(path, files, form=tarfile.USTAR_FORMAT):
  """Writes {name: content}, or pairs, in this order."""
  path.parent.mkdir(parents=True, exist_ok=True)
  with tarfile.open(path, "w", format=form) as tar:
    for name, content in files.items() if isinstance(files, dict) else files:
      member = tarfile.TarInfo(name)
      member.size = len(content)
      tar.addfile(member, io.BytesIO(content))


def example(number, *, image=True, text=None, **others):
  """Files of one example: {extension: content}."""
  files = {"png": picture(number)} if image else {}
  files["txt"] = f"text {number}".encode() if text is None else text
  return {f"{number:06d}.{name}": c for name, c in (files | others).items()}


def join(examples):
  return {
    name: content for files in examples for name, content in files.items()
  }


@pytest.fixture
def shards(tmp_path):
  """Three tar files of five examples each, numbered throughout."""
  for shard in range(3):
    numbers = range(shard * NUM_EACH, (shard + 1) * NUM_EACH)
    write_tar(tmp_path / f"part-{shard:02d}.tar", join(map(example, numbers)))
  return tmp_path


def open_(root, pattern=PATTERN, split="train", **options):
  return sources.open_source(
    f"webdataset:{pattern}", split, data_dir=str(root), **options
  )


def texts(source):
  return [t for (t, *_) in source.captions(np.arange(source.num_examples))]


def test_examples_are_read_by_number_from_any_shard(shards):
  source = open_(shards)
  assert source.num_examples == 15
  assert source.features == {"image": sources.Image(), "text": sources.Text()}
  assert source.num_classes is None and source.max_labels == 0
  ids = np.array([14, 0, 7, 7, 5])
  batch = source.read(ids)
  assert batch["image"].tolist() == [picture(i) for i in ids]
  assert batch["text"].tolist() == [(f"text {i}",) for i in ids]
  assert source.file_names(ids[:2]) == ["000014.png", "000000.png"]
  (name,) = source.names(np.array([7]))
  assert name == f"000007.png in {shards}/part-01.tar"


def test_files_are_indexed_once(shards, monkeypatch):
  first = open_(shards)
  monkeypatch.setattr(tar_index, "of_shard", lambda *_: 1 / 0)
  again = open_(shards)
  assert again.fingerprint == first.fingerprint
  assert texts(again) == texts(first)


def test_files_are_indexed_again_when_more_formats_can_be_read(
  tmp_path, monkeypatch
):
  """As after `pip install pillow-heif`."""
  pairs = join([example(0), example(1, image=False, avif=picture(1))])
  write_tar(tmp_path / "a.tar", pairs)
  fewer = tuple(s for s in image_formats.SUFFIXES if s != ".avif")
  with monkeypatch.context() as without:
    without.setattr(image_formats, "SUFFIXES", fewer)
    with pytest.raises(UserError, match="000001.* \\(no image\\)"):
      open_(tmp_path, "a.tar")
  assert open_(tmp_path, "a.tar").num_examples == 2


def test_a_changed_file_of_the_same_size_is_indexed_again(shards):
  first = open_(shards)
  path = shards / "part-01.tar"
  size = path.stat().st_size
  write_tar(
    path,
    join(example(i, text=b"another text") for i in (5, 6, 7, 8, 9)),
  )
  os.utime(path, (1, 1))
  assert path.stat().st_size == size  # Tar files are padded.
  again = open_(shards)
  assert texts(again)[5:10] == ["another text"] * 5
  assert again.fingerprint != first.fingerprint


def test_where_nothing_can_be_written_the_cache_holds_the_index(
  shards, monkeypatch, tmp_path_factory
):
  cache = tmp_path_factory.mktemp("cache")
  monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
  real = webdataset.index_files.store
  monkeypatch.setattr(
    webdataset.index_files, "store", lambda found, index: real(found[1:], index)
  )
  open_(shards)
  assert len(list((cache / "vit_jax").iterdir())) == 1
  monkeypatch.setattr(tar_index, "of_shard", lambda *_: 1 / 0)
  assert open_(shards).num_examples == 15


@pytest.mark.parametrize(
  "form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
)
def test_any_form_of_tar_and_of_name_is_read(form, tmp_path):
  long = "folder/" + "n" * 90
  names = ["./a/0001", "b.c/0001", "naïve", long, "a/0002"]
  files = {}
  for number, name in enumerate(names):
    files[f"{name}.jpg"] = picture(number)
    files[f"{name}.seg.txt"] = b"not a caption"
    files[f"{name}.txt"] = f"text {number}".encode()
  if form == tarfile.USTAR_FORMAT:
    files = {name: c for name, c in files.items() if name.isascii()}
  write_tar(tmp_path / "a.tar", files, form)
  source = open_(tmp_path, "a.tar")
  with tarfile.open(tmp_path / "a.tar") as tar:
    expected = [
      tar.extractfile(member).read()
      for member in tar
      if member.name.endswith(".jpg")
    ]
  found = source.read(np.arange(source.num_examples))["image"].tolist()
  assert found == expected


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_whole(form, tmp_path):
  names = [f"{'d' * 130}/{'é' * 60}{n}.jpg" for n in "ab"] + ["short.jpg"]
  files = {name: picture(0) for name in names}
  write_tar(tmp_path / "a.tar", files, form)
  source = open_(tmp_path, "a.tar")
  ids = np.arange(3)
  assert source.file_names(ids) == [name.rpartition("/")[2] for name in names]
  tar = f"in {tmp_path}/a.tar"
  assert source.names(ids) == [f"{name} {tar}" for name in names]


def test_captions_may_be_json_with_several(tmp_path):
  caption = {"caption": "one", "url": "x"}
  several = {"captions": ["one", "two"]}
  both = example(2, json=json.dumps(several).encode())
  alone = {
    f"{i}.{name}": content
    for i, value in enumerate((caption, several))
    for name, content in (
      ("json", json.dumps(value).encode()),
      ("webp", picture(i)),
    )
  }
  write_tar(tmp_path / "a.tar", alone | both)
  source = open_(tmp_path, "a.tar")
  assert source.captions(np.arange(3)).tolist() == [
    ("one",),
    ("one", "two"),
    ("text 2",),
  ]


def test_classes_are_labels(tmp_path):
  files = join(example(i, cls=str(i % 3).encode()) for i in range(6))
  write_tar(tmp_path / "a.tar", files)
  source = open_(tmp_path, "a.tar")
  assert source.num_classes == 3 and source.max_labels == 1
  labels = source.read(np.arange(6))["label"]
  assert labels.dtype == np.int32 and labels.tolist() == [0, 1, 2, 0, 1, 2]


def test_where_some_have_classes_all_must(tmp_path):
  files = [example(i, cls=b"1") for i in range(3)]
  write_tar(
    tmp_path / "a.tar", join([*files, example(3), example(4, cls=b"cat")])
  )
  says = "2 of the examples .*: 000003.png in .*a.tar .no class.; 000004.png"
  with pytest.raises(UserError, match=says):
    open_(tmp_path, "a.tar")


def test_classes_need_no_captions(tmp_path):
  files = {}
  for i in range(6):
    files |= {f"{i}.webp": picture(i), f"{i}.cls": str(i % 3).encode()}
  write_tar(tmp_path / "a.tar", files)
  source = open_(tmp_path, "a.tar")
  assert source.features == {
    "image": sources.Image(),
    "label": sources.Label(3),
  }
  batch = source.read(np.array([5, 0]))
  assert batch["image"].tolist() == [picture(5), picture(0)]
  assert batch["label"].tolist() == [2, 0]


def test_a_class_may_be_a_field_of_the_json(tmp_path):
  files = {}
  for i in range(6):
    value = {"label": i % 2, "fine": i, "word": "ant"}
    files |= {f"{i}.jpg": picture(i), f"{i}.json": json.dumps(value).encode()}
  write_tar(tmp_path / "a.tar", files)
  assert open_(tmp_path, "a.tar").known_labels().tolist() == [0, 1] * 3
  source = open_(tmp_path, "a.tar", label_key="fine")
  assert source.known_labels().tolist() == list(range(6))
  assert "text" not in source.features
  for name in ("word", "absent"):
    with pytest.raises(UserError, match=f"label_key = '{name}': no .json of"):
      open_(tmp_path, "a.tar", label_key=name)


def test_a_cls_goes_before_a_json(tmp_path):
  files = [
    example(i, cls=b"%d" % (i % 2), json=b'{"label": 7}') for i in range(4)
  ]
  write_tar(tmp_path / "a.tar", join(files))
  assert open_(tmp_path, "a.tar").known_labels().tolist() == [0, 1, 0, 1]


def test_a_field_that_is_named_goes_before_a_cls(tmp_path):
  files = [
    example(i, cls=b"%d" % i, json=b'{"coarse": %d}' % (i // 2))
    for i in range(4)
  ]
  write_tar(tmp_path / "a.tar", join(files))
  for key, labels in {
    "coarse": [0, 0, 1, 1],
    "label": [0, 1, 2, 3],
    "cls": [0, 1, 2, 3],
  }.items():
    source = open_(tmp_path, "a.tar", label_key=key)
    assert source.known_labels().tolist() == labels
  with pytest.raises(UserError, match="label_key = 'nonsense': no .json of"):
    open_(tmp_path, "a.tar", label_key="nonsense")


@pytest.mark.parametrize(
  "others", [("depth.png",), ("seg.png", "depth.jpg"), ("png", "mask.jpg")]
)
@pytest.mark.parametrize("is_first", [True, False])
def test_an_image_is_told_from_others_by_its_extension(
  others, is_first, tmp_path
):
  others = {f"000.{name}": picture(7) for name in others}
  image = {"000.jpg": picture(0)}
  files = image | others if is_first else others | image
  write_tar(tmp_path / "a.tar", {"000.cls": b"0"} | files)
  source = open_(tmp_path, "a.tar")
  assert source.read(np.array([0]))["image"].tolist() == [picture(0)]
  assert source.file_names(np.array([0])) == ["000.jpg"]


def test_one_image_may_have_any_extension_but_not_several(tmp_path):
  write_tar(tmp_path / "a.tar", {"0.rgb.png": picture(0), "0.cls": b"0"})
  source = open_(tmp_path, "a.tar")
  assert source.read(np.array([0]))["image"].tolist() == [picture(0)]
  files = {f"img.{i:03d}.jpg": picture(i) for i in range(10)}
  write_tar(tmp_path / "b.tar", files | {"last.jpg": picture(0)})
  says = r"1 of the examples .*: img.000.jpg in .*b.tar \(several images that"
  with pytest.raises(UserError, match=says):
    open_(tmp_path, "b.tar")
  source = open_(tmp_path, "b.tar", max_bad_examples=1)
  with pytest.raises(UserError, match=says.partition(": ")[2]):
    source.read(np.array([0]))
  assert source.read(np.array([1]))["image"].tolist() == [picture(0)]


@pytest.mark.parametrize("again", ["a.jpg", "a.JPG"])
def test_examples_of_one_name_do_not_merge_silently(again, tmp_path):
  pairs = [("a.jpg", picture(0)), ("a.cls", b"0")]
  repeated = [(again, picture(1)), ("a.cls", b"1")]
  others = [("b.jpg", picture(2)), ("b.cls", b"1")]
  write_tar(tmp_path / "a.tar", [*pairs, *repeated, *repeated, *others])
  says = r"1 of the examples .*: a.jpg in .*a.tar \(two members of the same ext"
  for _ in range(2):
    with pytest.raises(UserError, match=says):
      open_(tmp_path, "a.tar")
  source = open_(tmp_path, "a.tar", max_bad_examples=1)
  assert source.num_examples == 2
  assert source.read(np.array([1]))["image"].tolist() == [picture(2)]


def test_numbers_to_predict_are_a_field_of_the_json(tmp_path):
  values = [1.5, 2, -3e9, 0.25]
  files = {}
  for i, value in enumerate(values):
    content = json.dumps({"age": value, "label": i, "word": "ant"}).encode()
    files |= {f"{i}.jpg": picture(i), f"{i}.cls": b"7", f"{i}.json": content}
  write_tar(tmp_path / "a.tar", files)
  source = open_(tmp_path, "a.tar", label_key="age", numbers=True)
  assert source.numbers == ("age",) and source.label is None
  assert source.known_labels().dtype == np.float64
  assert source.known_labels().tolist() == [[v] for v in values]
  found = source.read(np.array([3, 0]))["label"]
  assert found.tolist() == [[0.25], [1.5]]
  source = open_(tmp_path, "a.tar", numbers=True)
  assert source.known_labels().tolist() == [[0], [1], [2], [3]]
  with pytest.raises(UserError, match="'word': no .json .* number to predict"):
    open_(tmp_path, "a.tar", label_key="word", numbers=True)


@pytest.mark.parametrize(
  "value", ["NaN", "-Infinity", "1" + "0" * 400, "true", '"3"', "null"]
)
def test_what_is_no_finite_number_is_named(value, tmp_path):
  files = {}
  for i, text in enumerate(("1.5", "3.5", value)):
    content = b'{"age": %s}' % text.encode()
    files |= {f"{i}.jpg": picture(i), f"{i}.json": content}
  write_tar(tmp_path / "a.tar", files)
  options = {"label_key": "age", "numbers": True}
  with pytest.raises(UserError, match=r": 2.jpg in .*a.tar \(no number\)"):
    open_(tmp_path, "a.tar", **options)
  source = open_(tmp_path, "a.tar", **options, max_bad_examples=1)
  with pytest.raises(UserError, match=r"^2.jpg in .*a.tar \(no number\)"):
    source.read(np.array([2]))
  found = targets.of_source(source, dataset="x")
  assert found.mean.tolist() == [2.5] and found.std.tolist() == [1]


def test_images_alone_have_neither_classes_nor_captions(tmp_path):
  write_tar(tmp_path / "a.tar", {f"{i}.png": picture(i) for i in range(3)})
  source = open_(tmp_path, "a.tar")
  assert source.features == {"image": sources.Image()}
  assert source.read(np.arange(3))["image"].tolist() == [
    picture(i) for i in range(3)
  ]


@pytest.mark.parametrize(
  ("partner", "reason"),
  [
    ({"2.png": picture(2)}, "no class"),
    ({"2.cls": b"1"}, "no image"),
    ({"2.png": picture(2), "2.cls": b"cat"}, "a .cls that holds no number .*"),
    ({"2.png": picture(2), "2.cls": b"-1"}, "a .cls that holds no number .*"),
  ],
)
def test_a_member_without_its_partner_is_named(partner, reason, tmp_path):
  files = {}
  for i in range(4):
    pair = {f"{i}.png": picture(i), f"{i}.cls": b"%d" % (i % 2)}
    files |= partner if i == 2 else pair
  write_tar(tmp_path / "a.tar", files)
  says = rf"1 of the examples .*: 2\.\w+ in .*a.tar \({reason}\)"
  with pytest.raises(UserError, match=says):
    open_(tmp_path, "a.tar")
  source = open_(tmp_path, "a.tar", max_bad_examples=1)
  assert source.num_examples == 4
  with pytest.raises(UserError, match=rf"2\.\w+ in .*\({reason}\)"):
    source.read(np.array([2]))


@pytest.mark.parametrize(
  "pattern", ["part-*.tar", "part-0?.tar", "pa{rt}*.tar"]
)
def test_stars_and_question_marks_name_sorted_files(pattern, shards):
  source = open_(shards, pattern)
  assert texts(source) == [f"text {i}" for i in range(15)]
  assert source.fingerprint == open_(shards).fingerprint
  moved = shards / "[a*b]"
  moved.mkdir()
  for path in shards.glob("*.tar"):
    path.rename(moved / path.name)
  assert open_(moved, pattern).num_examples == 15
  with pytest.raises(UserError, match=r"there is no file .*none-\*.tar"):
    open_(moved, "none-*.tar")


def test_brackets_are_no_pattern_and_a_tilde_is_the_home(shards, monkeypatch):
  (shards / "part-00.tar").rename(shards / "part-[0].tar")
  assert texts(open_(shards, "*-[0].tar")) == [f"text {i}" for i in range(5)]
  with pytest.raises(UserError, match="there is no file"):
    open_(shards, "*-0[12].tar")
  monkeypatch.setenv("HOME", str(shards))
  for pattern in ("~/part-01.tar", "~/part-?1.tar"):
    assert texts(open_("/nowhere", pattern))[0] == "text 5"


def test_too_many_files_are_refused_before_they_are_listed():
  for pattern in ("{0..99999}{0..99999}.tar", "{0..9}" * 40 + ".tar"):
    with pytest.raises(UserError, match="names more than 100000 files"):
      webdataset.check(pattern)


@pytest.mark.parametrize(
  ("pattern", "files"),
  [
    ("a.tar", ["a.tar"]),
    ("{a,b}/{0..2}.tar", [f"{x}/{i}.tar" for x in "ab" for i in range(3)]),
    ("x-{008..011}.tar", [f"x-{i:03d}.tar" for i in range(8, 12)]),
    ("gs://bucket/{7..7}.tar", ["gs://bucket/7.tar"]),
  ],
)
def test_braces_name_files(pattern, files):
  assert webdataset.check(pattern) == files


@pytest.mark.parametrize(
  "pattern",
  ["", "a.tar.gz", "a{0..1}", "a{0..1.tar", "{3..1}.tar", "{0..999999999}.tar"],
)
def test_other_patterns_are_a_sentence(pattern):
  with pytest.raises(UserError, match=r"^webdataset:.*write (one|it)"):
    sources.check(f"webdataset:{pattern}")


def test_missing_files_are_named_together(shards):
  with pytest.raises(UserError, match="2 of 5 tar files are missing: .*03.tar"):
    open_(shards, "part-{00..04}.tar")


def test_slices_count_examples_and_shards(shards):
  assert texts(open_(shards, split="train[4:6]")) == ["text 4", "text 5"]
  assert texts(open_(shards, split="train[2shard:]"))[0] == "text 10"
  assert open_(shards, split="all").num_examples == 15
  with pytest.raises(UserError, match="Present: train .15 examples"):
    open_(shards, split="test")


@pytest.mark.parametrize("step", [1, 4])
def test_a_resumed_run_reads_the_same_pairs(step, shards):
  whole = take(host_batches(open_(shards)), 6)
  late = take(host_batches(open_(shards), first=step * BATCH), 6 - step)
  assert_equal(late, whole[step:])


def test_processes_together_read_the_same_pairs(shards):
  whole = take(host_batches(open_(shards)), 6)
  parts = [
    take(host_batches(open_(shards), rows=rows), 6)
    for rows in (range(2), range(2, 4))
  ]
  together = [
    {name: np.concatenate([part[name] for part in step]) for name in step[0]}
    for step in zip(*parts, strict=True)
  ]
  assert_equal(together, whole)


BAD = {
  "no image": example(2, image=False),
  "no caption": {"000002.png": picture(2)},
  "empty caption": example(2, text=b" \n"),
  "broken UTF-8": example(2, text=b"caf\xe9"),
  "no JSON object": {"000002.png": picture(2), "000002.json": b"[1]"},
  "caption that is no text": {
    "000002.png": picture(2),
    "000002.json": b'{"caption": 3}',
  },
}


@pytest.mark.parametrize("reason", BAD)
def test_what_cannot_be_used_is_named_or_replaced(reason, tmp_path):
  files = [example(i) if i != 2 else BAD[reason] for i in range(5)]
  write_tar(tmp_path / "a.tar", join(files))
  says = (
    r"1 of the examples cannot be used: 000002\.\w+ in"
    rf" {tmp_path}/a.tar \({reason}\)\."
  )
  for _ in range(2):  # Scanned, and from the index.
    with pytest.raises(UserError, match=says):
      open_(tmp_path, "a.tar")
  source = open_(tmp_path, "a.tar", max_bad_examples=1)
  assert source.num_examples == 5
  batches = host_batches(source, max_bad_examples=1)
  found = [tuple(t) for batch in take(batches, 5) for t in batch["text"]]
  ids, _ = order.example_ids(np.arange(20), 5, seed=5)
  ids[ids == 2] = 3  # The next one takes its place.
  expected = [tuple(list(f"text {i}".encode()) + [256] * 6) for i in ids]
  assert found == expected
  assert batches.bad_examples(before=20) == [2]


def test_a_damaged_image_is_named(tmp_path):
  files = [example(i) for i in range(8)]
  files[3]["000003.png"] = files[3]["000003.png"][:90]
  write_tar(tmp_path / "a.tar", join(files))
  with pytest.raises(UserError, match=r"000003.png in .*a.tar \(damaged\)"):
    take(host_batches(open_(tmp_path, "a.tar")), 2)


def whole_before(path, end):
  """Numbers of the examples whose data end before a byte of a tar file."""
  with tarfile.open(path) as tar:
    return sum(
      member.offset_data + member.size <= end
      for member in tar
      if member.name.endswith(".txt")
    )


def test_a_tar_cut_anywhere_is_named_and_its_beginning_kept(tmp_path):
  write_tar(tmp_path / "whole.tar", join(map(example, range(4))))
  content = (tmp_path / "whole.tar").read_bytes()
  with tarfile.open(tmp_path / "whole.tar") as tar:
    last = max(member.offset_data + member.size for member in tar)
  last += -last % 512
  for end in range(1, last + 511, 97):
    (tmp_path / "cut.tar").write_bytes(content[:end])
    os.utime(tmp_path / "cut.tar", (end, end))
    count = whole_before(tmp_path / "whole.tar", end)
    says = f"cut.tar .it is cut off after {count} examples; copy it again"
    if end < 512:
      says = "cut.tar .it is not a tar file"
    with pytest.raises(UserError, match=says):
      open_(tmp_path, "cut.tar")
    if count:
      source = open_(tmp_path, "cut.tar", max_bad_examples=1)
      assert texts(source) == [f"text {i}" for i in range(count)], end


@pytest.mark.parametrize(
  ("content", "says"),
  [
    (b"", "it is empty"),
    (bytes(10240), "it holds no examples"),
    (b"no tar at all" * 100, "it is not a tar file"),
    (gzip.compress(bytes(10240), mtime=0), "it is compressed; decompress it"),
    (lzma.compress(bytes(10240)), "it is compressed; decompress it"),
  ],
  ids=["empty", "no-members", "text", "gzip", "xz"],
)
def test_a_tar_without_examples_is_named(content, says, shards):
  (shards / "part-01.tar").write_bytes(content)
  with pytest.raises(UserError, match=rf"part-01.tar \({says}"):
    open_(shards)
  assert open_(shards, max_bad_examples=1).num_examples == 10


def test_damage_in_the_middle_does_not_pass_for_the_end(tmp_path):
  write_tar(tmp_path / "a.tar", join(map(example, range(4))))
  with tarfile.open(tmp_path / "a.tar") as tar:
    start = tar.getmember("000002.png").offset
  content = bytearray((tmp_path / "a.tar").read_bytes())
  content[start : start + 512] = b"x" * 512
  (tmp_path / "a.tar").write_bytes(content)
  says = f"it is damaged at byte {start} after 2 examples; copy it again"
  with pytest.raises(UserError, match=re.escape(says)):
    open_(tmp_path, "a.tar")


@pytest.mark.parametrize("size", [2**63, 2**70, 2**62, -1024])
@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
@pytest.mark.parametrize("count", [0, 2])
def test_a_header_of_a_huge_size_is_damage(count, kind, size, tmp_path):
  write_tar(tmp_path / "a.tar", join(map(example, range(count))))
  content = (tmp_path / "a.tar").read_bytes().rstrip(b"\0")
  content += bytes(-len(content) % 512)
  member = tarfile.TarInfo("././@LongLink")
  member.type, member.size = kind, size
  header = member.tobuf(tarfile.GNU_FORMAT)
  (tmp_path / "a.tar").write_bytes(content + header + b"name".ljust(1024))
  with pytest.raises(UserError, match=r"a.tar \(it is (damaged|cut|not a tar)"):
    open_(tmp_path, "a.tar")


def test_other_files_are_passed_over(tmp_path):
  files = {"LICENSE": b"", **example(0), ".hidden.png": b"", **example(1)}
  write_tar(tmp_path / "a.tar", files)
  assert texts(open_(tmp_path, "a.tar")) == ["text 0", "text 1"]


def test_classes_are_known_without_reading_the_images(tmp_path):
  numbers = range(6)
  examples = [example(i, cls=b"%d" % (i % 3)) for i in numbers]
  write_tar(tmp_path / "part-00.tar", join(examples))
  source = open_(tmp_path, "part-00.tar")
  assert source.known_labels().tolist() == [0, 1, 2, 0, 1, 2]
  assert source.read(np.arange(6))["label"].tolist() == [0, 1, 2, 0, 1, 2]
  write_tar(tmp_path / "part-01.tar", join(map(example, numbers)))
  assert open_(tmp_path, "part-01.tar").known_labels() is None


def test_a_json_that_is_broken_asks_for_no_captions(tmp_path):
  files = {}
  for i in range(6):
    files |= {f"{i}.png": picture(i), f"{i}.cls": str(i % 3).encode()}
    files[f"{i}.json"] = b'{"width": 16}' if i != 2 else b'{"width": 1'
  write_tar(tmp_path / "a.tar", files)
  source = open_(tmp_path, "a.tar")
  assert source.features.keys() == {"image", "label"}
  assert source.read(np.arange(6))["label"].tolist() == [0, 1, 2, 0, 1, 2]


def test_where_captions_are_not_wanted_they_may_lack(tmp_path):
  files = [example(i, cls=b"%d" % (i % 2)) for i in range(4)]
  del files[1]["000001.txt"]
  write_tar(tmp_path / "a.tar", join(files))
  with pytest.raises(UserError, match="000001.png in .*no caption"):
    open_(tmp_path, "a.tar")
  source = open_(tmp_path, "a.tar", captions=False)
  assert source.features.keys() == {"image", "label"}
  assert source.read(np.arange(4))["label"].tolist() == [0, 1, 0, 1]


def test_captions_of_which_none_can_be_read_are_named(tmp_path):
  files = [example(i, text=b"caf\xe9") for i in range(3)]
  write_tar(tmp_path / "a.tar", join(files))
  with pytest.raises(UserError, match="000000.* .broken UTF-8."):
    open_(tmp_path, "a.tar")
