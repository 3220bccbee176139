"""Bytes of a file to text: UTF-8, the encoding of its byte order mark, or a given one; never a guess. Pure."""

from __future__ import annotations

import codecs

from languages import MessageError, _

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030"}
"""Files called GBK are often GB 18030, with emoji that editors wrote. Every GBK text is the same in GB 18030."""
_IDEOGRAPHS = range(0x4E00, 0xA000)


class EncodingError(MessageError):
    """The bytes are not text in that encoding; the message follows the name of the file and says what to do."""


def decode(content: bytes, encoding: str | None, *, flag: bool = False) -> str:
    """Decode a text. `encoding` is a name that Python knows, or None for UTF-8 and files with a byte order mark.
    Raises EncodingError, which names --encoding if `flag` says that the caller has it."""
    if encoding is not None:
        return _decode_as(content, encoding)
    marked_encodings = [name for mark, name in _MARKS if content.startswith(mark)]
    try:
        text = content.decode(marked_encodings[0] if marked_encodings else "utf-8")
    except UnicodeDecodeError as error:
        raise EncodingError(_advice(content, flag)) from error
    if "\0" in text:
        raise EncodingError("is not a text file; give a text file in UTF-8")
    return text


def _decode_as(content: bytes, encoding: str) -> str:
    """Decode a text in the named encoding; GB 18030 in place of GBK. Raises EncodingError if no
    encoding has this name, or if the content is not in it."""
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:  # ValueError: it holds a NUL, or what is not ASCII
        raise EncodingError(
            "cannot be read: there is no encoding {encoding!r}; try gb18030 or utf-8", encoding
        ) from error
    try:
        return content.decode(_WIDER.get(name, name)).removeprefix("\ufeff")
    except (LookupError, UnicodeError) as error:  # LookupError: it makes no text, such as hex
        raise EncodingError(
            "is not in the encoding {encoding}; leave it out for UTF-8, or name another", encoding
        ) from error


def _advice(content: bytes, flag: bool) -> str:
    """Say why a content is not UTF-8, and what to do: it is not text, is probably GBK, or is in an
    unknown encoding. With `flag` the sentence names --encoding."""
    if b"\0" in content:
        return _("is not a text file; give a text file in UTF-8")

    try:
        text = content.decode("gb18030")
    except UnicodeDecodeError:
        text = ""

    beyond = [char for char in text if ord(char) > 127]
    if beyond and sum(ord(char) in _IDEOGRAPHS for char in beyond) * 2 > len(beyond):
        if flag:
            return _(
                "is not UTF-8 but probably GBK; add `--encoding gb18030`, or save the file as UTF-8"
            )
        return _(
            "is not UTF-8 but probably GBK; add the encoding gb18030, or save the file as UTF-8"
        )

    if flag:
        return _("is not UTF-8; save the file as UTF-8, or name it with --encoding")

    return _("is not UTF-8; save the file as UTF-8, or add its encoding")
