"""The rules by which CLIP's and SigLIP's programs clean captions.

'none'          Nothing: what a tokenizer.json says itself, as transformers.
'openai'        OpenAI's and open_clip's CLIP: ftfy, HTML entities unescaped
                twice, white space collapsed, lower case.
'whitespace'    As 'openai', but the case is kept; open_clip's default for
                tokenizers of Hugging Face.
'canonicalize'  open_clip's SigLIP: ftfy, HTML entities, '_' made a space, ASCII
                punctuation removed, lower case, white space collapsed.
'siglip'        transformers' SiglipTokenizer: lower case, ASCII punctuation
                removed, white space collapsed.
'siglip_cased'  As 'siglip', but the case is kept (do_lower_case = false).
'big_vision'    SigLIP's training: ASCII letters in lower case, as
                tf.strings.lower without an encoding; the rest stays.
"""

import html
import re
import string
from collections.abc import Callable

import ftfy

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _mend(text: str) -> str:
  # Most captions; ftfy takes 50 times as long to leave them unchanged.
  if text.isascii() and text.isprintable() and "&" not in text:
    return text
  return html.unescape(html.unescape(ftfy.fix_text(text)))


def _collapse(text: str) -> str:
  return " ".join(text.split())


def _openai(text: str) -> str:
  return _collapse(_mend(text)).lower()


def _whitespace(text: str) -> str:
  return _collapse(_mend(text))


def _canonicalize(text: str) -> str:
  text = _mend(text).strip().replace("_", " ")
  return _collapse(text.translate(_NO_PUNCTUATION).lower())


def _siglip(text: str) -> str:
  return _siglip_cased(text.lower())


def _siglip_cased(text: str) -> str:
  text = text.translate(_NO_PUNCTUATION)
  return re.sub(r"\s+", " ", text).strip()


def _big_vision(text: str) -> str:
  return text.translate(_ASCII_LOWER)


RULES: dict[str, Callable[[str], str]] = {
  "none": str,
  "openai": _openai,
  "whitespace": _whitespace,
  "canonicalize": _canonicalize,
  "siglip": _siglip,
  "siglip_cased": _siglip_cased,
  "big_vision": _big_vision,
}
