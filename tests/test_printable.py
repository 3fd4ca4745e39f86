"""Names of files in messages."""

from vit_jax import printable


def test_control_characters_are_written_out_and_letters_are_not():
  assert printable.on_one_line("a\n\x1b[2J b") == "a\\n\\x1b[2J b"
  assert printable.on_one_line("日本 Bär") == "日本 Bär"
