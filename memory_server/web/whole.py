"""`/` and `/recalls` as one file that needs no server: no script, no address but those within the file."""

from __future__ import annotations

import re
from dataclasses import replace

from memory_server.web.pages import home, recalls
from memory_server.web.view import FOLDER, View

_MAIN = re.compile(r'<main id="main" tabindex="-1">(.*)</main>', re.DOTALL)
_LIVE = re.compile(
    r'<script\b.*?</script>|<form\b.*?</form>|<nav class="switch".*?</nav>|<p class="news".*?</p>', re.DOTALL
)
_SIDE = re.compile(r'<nav\b.*?</nav>|<details class="more">.*?</details>|<a class="skip".*?</a>', re.DOTALL)
_LINK = re.compile(r'<a\b(?![^>]*href="#)[^>]*>(.*?)</a>', re.DOTALL)


async def whole(view: View) -> str:
    """Both pages, one below the other."""
    quiet = replace(view, site=replace(view.site, writable=False, pauses=None))
    first, second = [bytes((await page(quiet)).body).decode() for page in (home, recalls)]
    found = _MAIN.search(second)
    text = _MAIN.sub(
        lambda at: at[0].replace("</main>", f"<section>{found[1] if found else ''}</section></main>"), first
    )
    text = _LINK.sub(r"\1", _SIDE.sub("", _LIVE.sub("", text)))
    style = (FOLDER / "static" / "style.css").read_text("utf-8")
    link = '<link rel="stylesheet" href="static/style.css">'
    rules = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    policy = f'<meta http-equiv="Content-Security-Policy" content="{rules}">'
    return text.replace(link, f"{policy}<style>{style}</style>", 1)
