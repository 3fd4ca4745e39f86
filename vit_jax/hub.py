"""Checkpoints on the Hugging Face hub by name: hf:OWNER/NAME[@REVISION].

The files are in the cache of huggingface_hub, with its settings: HF_HOME,
HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE. A revision is a branch, a tag or a
commit; the default is the current `main`.
"""

import contextlib
import functools
import os
import re
from collections.abc import Iterator, Sequence

from vit_jax import truncate
from vit_jax.errors import UserError

_PREFIX = "hf:"
_NAME = re.compile(r"hf:(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?", re.ASCII)
SECONDS = 4.0  # Time for the hub to answer.
# Weights in order of preference. From a repository with several forms, one is
# fetched.
_WEIGHTS = (
  re.compile(r"model(-\d+-of-\d+)?\.safetensors"),
  re.compile(r".*\.safetensors"),
  re.compile(r".*\.npz"),
  re.compile(r"pytorch_model-\d+-of-\d+\.bin"),
  # Next to it, trainers leave training_args.bin and optimizer.pt.
  re.compile(r"pytorch_model\.bin"),
  re.compile(r".*\.(bin|pth|pt)"),
)
# Forms that readers of directories know, and that may have several files.
_OF_DIRECTORIES = (_WEIGHTS[0], _WEIGHTS[3])
_OPEN_CLIP = "open_clip_config.json"
# Configs, tokenizers and names of classes.
_BESIDE = re.compile(r".*\.(json|txt|model|gz)")


def is_name(path: str) -> bool:
  """Returns True for the name of a repository."""
  return path.startswith(_PREFIX)


def local(path: str) -> str:
  """Returns the path of a repository's files, fetched if necessary.

  It is their directory, or the repository's only file of weights if its name is
  unknown to readers of directories, such as an .npz.

  Args:
    path: 'hf:OWNER/NAME' or 'hf:OWNER/NAME@REVISION'; any other path is
      returned unchanged.

  Raises:
    UserError: The name has another form; there is no such repository or
      revision, the user has no access to it, or it has no weights; or the hub
      cannot be reached and the files are not in the cache.
  """
  if not is_name(path):
    return path
  match = _NAME.fullmatch(path)
  if not match:
    raise UserError(
      f"{path!r} is not the name of a repository; write hf:OWNER/NAME or"
      " hf:OWNER/NAME@REVISION."
    )
  return _fetched(*match.groups())


def check_free(path: str) -> str:
  """Checks that a repository can be created, and returns its name.

  Args:
    path: 'hf:OWNER/NAME', which must not exist, or be private and without
      weights.

  Raises:
    UserError: The name has another form or a revision, no user is logged in, or
      the repository has weights or is public.
  """
  import huggingface_hub
  from huggingface_hub import errors

  match = _NAME.fullmatch(path)
  if not match or match[2]:
    raise UserError(
      f"{path!r} is not the name of a new repository; write hf:OWNER/NAME."
    )
  if not huggingface_hub.get_token():
    raise UserError(
      f"{path}: nobody is logged in to the hub; run `hf auth login`, or set"
      " HF_TOKEN to a token that may write."
    )
  try:
    found = huggingface_hub.HfApi().model_info(match[1], timeout=SECONDS)
  except errors.RepositoryNotFoundError:
    return match[1]
  except Exception as error:  # As in `_fetched`.
    raise UserError(_unreachable(path, error)) from None
  files = [sibling.rfilename for sibling in found.siblings or ()]
  if any(form.fullmatch(file) for file in files for form in _WEIGHTS):
    raise UserError(
      f"{path} holds weights, and nothing is overwritten; name another"
      " repository, or write a directory and upload it with `hf upload"
      f" {match[1]} DIRECTORY`."
    )
  if found.private is False:  # `create_repo` does not change it.
    raise UserError(
      f"{path} is open to everyone, and what is uploaded is to be for your eyes"
      " until you open it; make it private on its page, name another"
      " repository, or write a directory and upload it with `hf upload"
      f" {match[1]} DIRECTORY`."
    )
  return match[1]


def push(directory: str, name: str, message: str) -> str:
  """Uploads a directory in one commit to a repository, and returns its page.

  A missing repository is created, visible only to its owner.

  Args:
    directory: Directory of the files to upload.
    name: 'OWNER/NAME', as returned by `check_free`.
    message: Message of the commit.

  Raises:
    UserError: The user has no write access, or the hub cannot be reached; then
      none of the files are in the repository.
  """
  import huggingface_hub
  from huggingface_hub import errors

  hub = huggingface_hub.HfApi()
  try:
    page = hub.create_repo(name, private=True, exist_ok=True)
    hub.upload_folder(
      repo_id=name, folder_path=directory, commit_message=message
    )
  except Exception as error:  # As in `_fetched`.
    is_answer = isinstance(error, errors.HfHubHTTPError)
    if is_answer and error.response.status_code in (401, 403):
      raise UserError(
        f"hf:{name}: the hub does not let this user write there"
        f" ({reason(error)}). Name a place of your own, or log in with a"
        " token that may write."
      ) from None
    raise UserError(_unreachable(f"hf:{name}", error)) from None
  return str(page)


def _unreachable(path: str, error: Exception) -> str:
  return (
    f"{path}: the hub cannot be reached ({reason(error)}). Try again later;"
    " until then a directory on disk can be written."
  )


@contextlib.contextmanager
def refusals(where: str, name: str, revision: str | None) -> Iterator[None]:
  """Converts errors of the hub to messages; other errors pass through.

  Args:
    where: Repository as named by the user.
    name: 'OWNER/NAME'.
    revision: Branch, tag or commit; None for 'main'.

  Raises:
    UserError: There is no such repository or revision, or the user has no
      access to it.
  """
  from huggingface_hub import errors

  try:
    yield
  except errors.GatedRepoError:
    raise UserError(
      f"{where} is open to those who have accepted its terms: accept them on"
      " its page, and log in with `hf auth login` or HF_TOKEN."
    ) from None
  except errors.RevisionNotFoundError:
    raise UserError(
      f"{where}: the repository {name} has no revision {revision!r}; name a"
      " branch, a tag or a commit."
    ) from None
  except errors.RepositoryNotFoundError:
    raise UserError(
      f"{where}: the hub has no repository {name}, or it is private. Check the"
      " name, or log in with `hf auth login` or HF_TOKEN."
    ) from None
  except errors.HFValidationError as error:
    raise UserError(
      f"{where} is not the name of a repository: {error}"
    ) from None


@functools.cache
def _fetched(name: str, revision: str | None) -> str:
  # Imported late, as most runs start from a file.
  import huggingface_hub

  where = f"hf:{name}" + (f"@{revision}" if revision else "")
  try:
    with refusals(where, name, revision):
      found = huggingface_hub.HfApi().model_info(
        name, revision=revision, timeout=SECONDS
      )
      files = [sibling.rfilename for sibling in found.siblings or ()]
      wanted = _wanted(files, where)
      place = huggingface_hub.snapshot_download(
        name,
        revision=revision,  # The cache finds it by this name.
        allow_patterns=wanted,
        etag_timeout=SECONDS,
      )
      return _entry(place, wanted)
  except UserError:
    raise
  except Exception as error:  # Those of its HTTP library are not public.
    with contextlib.suppress(Exception):
      place = huggingface_hub.snapshot_download(
        name,
        revision=revision,
        local_files_only=True,
        # Files listed as missing may be those that are never fetched.
        allow_patterns=[],
      )
      return _entry(place, _wanted(os.listdir(place), where))
    raise UserError(
      f"{where} cannot be fetched ({reason(error)}), and it is not in the"
      " cache. Try again with a network, or give the path of a copy."
    ) from None


def _wanted(files: Sequence[str], where: str) -> list[str]:
  """Selects the weights in one form, and the accompanying text files.

  Raises:
    UserError: There are no weights, or several files that are not parts of one.
  """
  tops = [file for file in files if "/" not in file]
  for form in _WEIGHTS:
    weights = [file for file in tops if form.fullmatch(file)]
    if len(weights) > 1 and form not in _OF_DIRECTORIES:
      raise UserError(
        f"{where} holds several files of weights ({truncate.first(weights)});"
        " download the one that is meant, and give its path."
      )
    if weights:
      return [*weights, *(file for file in tops if _BESIDE.fullmatch(file))]
  raise UserError(
    f"{where} holds no weights that can be read: no .safetensors, .npz, .bin or"
    " .pth file."
  )


def _entry(place: str, files: Sequence[str]) -> str:
  """The path to read: the directory, or its only file with another name."""
  known = any(form.fullmatch(files[0]) for form in _OF_DIRECTORIES)
  if known or _OPEN_CLIP in files:
    return place
  return os.path.join(place, files[0])


def reason(error: Exception) -> str:
  """The first sentence of an error."""
  first = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
  return first or type(error).__name__
