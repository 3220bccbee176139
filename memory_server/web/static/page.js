// Makes forms and links quicker; without it everything works too. It stores nothing and asks only its own server.
"use strict";
const search = document.querySelector("form.search input[type=search]");
const found = document.getElementById("found");

// Search while somebody types: the result page, without its frame.
let asked = 0;
async function look() {
  const number = ++asked;
  const sought = search.value.trim();
  if (!sought) { found.replaceChildren(); return; }
  const form = search.form;
  const answer = await fetch(`${form.action}?${new URLSearchParams(new FormData(form))}`);
  if (!answer.ok || number !== asked) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const part = page.getElementById("found");
  if (part) found.replaceChildren(...part.childNodes);
}
if (search && found) {
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 200); });
}

// `/` goes to the search, `?` shows the keys, Escape leaves both.
const keys = document.querySelector("details.keys");
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches?.("input, textarea, select");
  if (event.key === "Escape" && event.target === search) { search.value = ""; found?.replaceChildren(); search.blur(); }
  if (event.key === "Escape" && keys) keys.open = false;
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { if (search) search.focus(); else location.href = "find"; event.preventDefault(); }
  if (event.key === "?" && keys) { keys.open = !keys.open; keys.querySelector("summary").focus(); }
});

// A change while the page is open: offer the new state, never replace what somebody reads.
const version = document.body.dataset.version;
const news = document.querySelector(".news");
let known = null;
async function changed() {
  if (document.hidden || !version) return;
  try {
    const answer = await fetch(version);
    if (!answer.ok) return;
    const now = (await answer.json()).version;
    if (known !== null && now !== known) news.hidden = false;
    known = known ?? now;
  } catch { /* the server has ended; the page stays readable */ }
}
if (news) { changed(); setInterval(changed, 5000); }
