"""Captions with every oddity that a tokenizer meets."""

import random

ODD = (
  "",
  " ",
  " \t\r\n\u00a0\u2003 ",
  "a",
  "a cat",
  "  A  Photo\tof a\nCAT.  ",
  "a_photo_of_a_cat",
  "it's we're I'VE they'll I'm he'd don't 'S 'tis ''s",
  (
    "the cat'\u017f K \u0130stanbul \u00c9CLAIR stra\u00dfe STRASSE "
    "\u039f\u0394\u039f\u03a3"
  ),
  "caf\u00e9 cafe\u0301 nai\u0308ve \u212b \ufb01sh \u2460 \u00bd x\u00b2",
  "&amp; &amp;amp; &lt;b&gt; &eacute; &#39; &#x1F600; &nbsp;x &copy 2 < 3",
  "<b>bold</b> &lt;i&gt;",
  "schÃ¶n fÃ¼r â€œquotesâ€\u009d donâ€™t",
  "\u201ccurly\u201d \u2018quotes\u2019 \u2014 dash \u2026 \u2022",
  (
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f "
    "\U0001f1e9\U0001f1ea cat\U0001f408"
  ),
  (
    "\u732b\u304c\u5ea7\u3063\u3066\u3044\u308b \u55b5 "
    "\uace0\uc591\uc774 \u1100\u1161"
  ),
  (
    "\u043a\u043e\u0442 \u041a\u041e\u0422 \u03b3\u03ac\u03c4\u03b1 "
    "\u0393\u03ac\u03a4\u03b1 \u0642\u0637\u0629 "
    "\u05d7\u05ea\u05d5\u05dc \u092c\u093f\u0932\u094d\u0932\u0940 "
    "\u0e41\u0e21\u0e27"
  ),
  "\x00a\x01b\x07c\x1b[31mred\x1b[0m\x7f\x85d\x1c\x1de\x1f",
  "zero\u200bwidth\u200djoiner\ufeffbom\u00adsoft\u2060x\u180ey",
  "line\u2028separator\u2029paragraph\x0bvertical\x0cfeed\r\nend",
  "1234567890 3.14 1,000 10% $5 \u20ac7 a1b2 \u0661\u0662 \u2167",
  "!!!??? ... --- *** (())[]{} ~`@#^&*+=|\\/:;<>,.\"'",
  "http://example.com/a?b=c&d=e#f user@example.com",
  "\u2581under \u2581 score\u2581",
  "\ufffd \U0010ffff \ue000 \ufdd0",
  "the quick brown fox" * 20,
  "cat " * 500,
  "\U0001f408" * 100,
  "x" + "\u0301" * 40,
  "ab" + " " * 200 + "cd",
)
SPECIAL = (
  "<|startoftext|> a cat <|endoftext|>",
  "a<|endoftext|>b <|ENDOFTEXT|>",
  "!!<|endoftext|>",
  "</s>",
  "a cat</s>",
  "a </s> cat <unk> dog",
  "</s> a",
  "<pad> <bos> <eos> <s> <EOS>",
  "<unk>",
  "<start_of_text> a cat <end_of_text>",
  "!!<end_of_text>!! it's<end_of_text>don't",
)
_WORDS = (
  "a photo of the cat dog red Blue GREEN small large old car house tree on in"
  " under with grass water sky it's don't man's running 3 dogs 2024 beautiful"
  " caf\u00e9 na\u00efve &amp; &quot;nice&quot; \U0001f600 \u732b "
  "\u043a\u043e\u0442"
  " U.S.A. e-mail (round) [box] 50% #tag @you _under_ semi;colon a/b c\\d"
).split(" ")
_LETTERS = (
  "abcXYZ019 "
  ".,'&;<>_-\t\n\u00e9\u00df\u0130\u0301\u200d\u00a0\u2581\u03a3\u03c3"
  ""
  "\u732b\u304c\uac00\u043a\u0416\u0639\U0001f600\u2764\ufe0f\x00\x1b\x85\u201c\u2019"
)


def texts(number: int, seed: int = 0) -> list[str]:
  """Returns the odd captions, and random words and letters after them."""
  draw = random.Random(seed)
  found = [*ODD, *SPECIAL]
  while len(found) < number:
    pool, most, join = draw.choice([(_WORDS, 30, " "), (_LETTERS, 60, "")])
    found.append(join.join(draw.choices(pool, k=draw.randint(1, most))))
  return found[:number]
