"""`/` and `/recalls` as one file that needs no server: no script, no form, no link but those within the file."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from memory_server.web.pages import home, recalls
from memory_server.web.view import FOLDER, View

_LIVE = ("script", "form", "nav", "details")
"""Elements that are nothing without a server."""
_STYLE = '<link rel="stylesheet" href="static/style.css">'
_RULES = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class _Still(HTMLParser):
    """Copies a page without what is live: the head, and the inside of `main`."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.before, self.main = list[str](), list[str]()
        self._out, self._within = self.before, 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within += tag in _LIVE
        if tag == "main":
            self._out = self.main
        elif not self._within and tag != "a":
            self._out.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "main":
            self._out = []
        elif not self._within and tag != "a":
            self._out.append(f"</{tag}>")
        self._within -= tag in _LIVE

    def handle_data(self, data: str) -> None:
        if not self._within:
            self._out.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def handle_decl(self, decl: str) -> None:
        self.handle_data(f"<!{decl}>")


async def whole(view: View) -> str:
    """Return one HTML document that needs no server: the pages of memories and of recalls, one below the other, with
    nothing to change."""
    quiet = replace(view, site=replace(view.site, writable=False, pauses=None))
    first, second = [_Still(bytes((await page(quiet)).body).decode()) for page in (home, recalls)]
    style = (FOLDER / "static" / "style.css").read_text("utf-8")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_RULES}">'
    head = "".join(first.before).replace(_STYLE, f"{policy}<style>{style}</style>", 1)
    inner = "".join((*first.main, "<section>", *second.main, "</section>"))
    return f'{head}<main id="main">{inner}</main></div></body></html>\n'
