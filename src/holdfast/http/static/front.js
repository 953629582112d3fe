// The front page: what runs here. The cards to try it come with the systems.
import { api, at, el, morph, token, who } from "./holdfast.js";
import { count, topicWords } from "./parts.js";

const HEALTH_MS = 5000;

// What runs here. Anybody sees whether it is ready; an operator sees how busy it is and what asks for a person.

async function health() {
  const well = document.querySelector("#well");
  try {
    const answer = await fetch(at("/readyz"));
    const body = await answer.json();
    const busy = who()?.roles.some((role) => role === "operator" || role === "viewer") ? await glances() : new Map();
    const names = Object.keys(body.systems ?? {});
    const lines = names.map((name) => line(name, body.systems[name], busy.get(name)));
    morph(document.querySelector("#systems"), el("ul", { id: "systems" }, lines));
    const asking = [...busy.values()].filter((one) => one.light !== "green").length;
    const isRed = [...busy.values()].some((one) => one.light === "red");
    const asks = `Ready for work; ${count(asking, "system")} ${asking === 1 ? "asks" : "ask"} for a person.`;
    // Only who may see the lights is told that all is well: ready is who accepts, and nobody may be working.
    const words = !busy.size ? "Ready to accept work." : asking ? asks : "Everything is ready.";
    well.textContent = answer.ok ? words : "Not everything is ready.";
    well.className = !answer.ok || isRed ? "error" : !busy.size ? "soft" : asking ? "warn" : "good";
  } catch {
    well.textContent = "The server does not answer.";
    well.className = "error";
  }
}

async function glances() {
  try {
    return new Map((await api("/api/ops/overview")).items.map((one) => [one.system, one]));
  } catch {
    return new Map();
  }
}

function line(name, state, glance) {
  const kind = state !== "ready" ? "error" : ({ red: "error", yellow: "warn", green: "good" }[glance?.light] ?? "");
  const words = state !== "ready" ? state : (glance?.asks[0] ? topicWords(glance.asks[0].topic) : "ready");
  const live = glance?.lanes?.reduce((sum, lane) => sum + lane.jobs, 0) ?? 0;
  return el(
    "li",
    {},
    el("span", { class: `pill ${kind}` }, words),
    ` ${glance?.title ?? name}`,
    glance?.lanes && glance.runs_jobs
      ? el("span", { class: "soft small" }, ` ${count(live, "unfinished job")}, ${count(glance.workers, "worker")}`)
      : null,
    glance?.dead_letters_open
      ? [" ", el("a", { href: at("/console#dead") }, count(glance.dead_letters_open, "dead letter"))]
      : null,
  );
}

function greet() {
  const me = who();
  const box = document.querySelector("#who");
  if (token() && me) box.replaceChildren(me.sub);
  else box.replaceChildren(el("a", { href: at("/login") }, document.querySelector("form") ? "Sign in to try it" : "Sign in"));
}

greet();
health();
setInterval(health, HEALTH_MS);
