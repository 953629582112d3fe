// Takes a token from the printed link or from the form, and keeps it for this tab. Another word after the # is the view
// that somebody wanted to see: a browser carries it along when the console sends it here.
import { api } from "./holdfast.js";
import { at } from "./root.js";
import { forget, keep } from "./session.js";

const words = location.hash.slice(1);
const given = /^(token=.*|[\w-]+\.[\w-]+\.[\w-]+)$/.test(words) ? words.replace(/^token=/, "") : "";
const WANTED = "holdfast.wanted"; // the view, while its reader is at the organisation's page
const wanted = given ? (sessionStorage.getItem(WANTED) ?? "") : words;
sessionStorage.removeItem(WANTED);
const next = new URLSearchParams(location.search).get("next") ?? "";
const PAGE = /^[a-z][a-z-]*$/; // where a sign-in may lead: a page of ours, no address of another site
const form = document.querySelector("form");
const said = document.querySelector("#said-here");

async function enter(token) {
  history.replaceState(null, "", at(`/login${location.search}`)); // the token stays out of the address and the history
  keep(token);
  try {
    await api("/api/session", { method: "POST" });
    location.replace(at(PAGE.test(next) ? `/${next}` : "/") + (wanted ? `#${wanted}` : ""));
  } catch (error) {
    forget();
    said.textContent = error.message;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  enter(form.token.value.trim());
});
const way = document.querySelector("a.button");
if (way) {
  way.href = at(`/login/oidc?${new URLSearchParams({ next })}`);
  way.addEventListener("click", () => sessionStorage.setItem(WANTED, words));
}
if (given) enter(given);
addEventListener("hashchange", () => location.reload()); // the printed link, opened while this page is shown
