// The console's frame: routes by the address's hash, a view is a function that returns an element.
import { el } from "/static/holdfast.js";
import { breakers, effects, jobs, outbox, overview, instructor } from "/static/console-views.js";
import { job } from "/static/console-job.js";
import { letter, letters } from "/static/console-letters.js";

const ROUTES = [["overview", "Overview", overview], ["jobs", "Jobs", jobs], ["dead", "Dead letters", letters],
  ["breakers", "Breakers", breakers], ["outbox", "Outbox", outbox], ["effects", "Effects", effects], ["queue", "Instructor queue", instructor]];
const view = document.querySelector("#view");
const nav = document.querySelector("#nav");
let turn = 0;

function where() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  return { name: name || "overview", rest: rest.map(decodeURIComponent) };
}

async function show({ quietly = false } = {}) {
  const mine = ++turn;
  const { name, rest } = where();
  nav.replaceChildren(el("a", { href: "/" }, "Try it"), ...ROUTES.map(([key, title]) =>
    el("a", { href: `#${key}`, class: key === name ? "current" : null, "aria-current": key === name ? "page" : null }, title)));
  if (quietly && view.contains(document.activeElement) && document.activeElement !== view) return;  // do not pull a form from under a hand
  try {
    const made = name === "job" ? await job(rest[0], show) : name === "letter" ? await letter(rest[0], show)
      : await (ROUTES.find(([key]) => key === name) ?? ROUTES[0])[2](rest, show);
    if (mine === turn) view.replaceChildren(made);
  } catch (error) {
    if (mine !== turn) return;
    const again = error.status === 401 ? el("p", {}, el("a", { href: "/login?next=console" }, "Sign in again")) : null;
    view.replaceChildren(el("p", { class: "error", role: "alert" }, error.message), again ?? "");
  }
}

document.querySelector("#find").addEventListener("submit", (event) => {
  event.preventDefault();
  location.hash = `jobs/${encodeURIComponent(event.target.q.value.trim())}`;
});
addEventListener("hashchange", () => show());
setInterval(() => { if (!document.hidden) show({ quietly: true }); }, 3000);
show();
