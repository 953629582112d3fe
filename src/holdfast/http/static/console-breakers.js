// Breakers: which provider is called and which is not, by whose decision, and since when.
import { api, el } from "./holdfast.js";
import { ask, count, doing, facts, link, pill, span, table, text, when } from "./parts.js";

const href = (row) => `#breaker/${encodeURIComponent(row.system)}/${encodeURIComponent(row.name)}`;

export async function breakers(place, again) {
  const { items } = await api("/api/ops/breakers");
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Breakers"),
    el(
      "p",
      { class: "soft" },
      "While a breaker is open nothing calls its provider; jobs that need it wait and spend no attempt.",
    ),
    table(
      [
        ["Provider", (row) => link(href(row), row.name)],
        ["System", "system"],
        ["Gate", (row) => pill(row.gate)],
        ["Last calls", (row) => calls(row)],
        ["Jobs held", "parked"],
        ["Why", (row) => reason(row)],
        ["", (row) => button(row, again)],
      ],
      items,
      (row) => `${row.system}/${row.name}`,
    ),
  );
}

export async function breaker({ parts: [system, name] }, again) {
  const where = new URLSearchParams({ system });
  const [{ items }, past, acts] = await Promise.all([
    api(`/api/ops/breakers?${where}`),
    api(`/api/ops/breakers/${encodeURIComponent(name)}/history?${where}`),
    api(`/api/ops/audit?${new URLSearchParams({ system, subject: `breaker:${name}` })}`),
  ]);
  const one = items.find((row) => row.name === name);
  if (!one) return el("p", { class: "callout error" }, `No provider is named ${name} here.`);
  return el(
    "div",
    {},
    el(
      "div",
      { class: "head" },
      el("h2", { tabindex: "-1" }, `Breaker of ${one.name}`),
      pill(one.gate),
      el("div", { class: "end" }, button(one, again)),
    ),
    one.gate === "closed"
      ? el("p", { class: "callout good" }, "It is closed: calls go through.")
      : el("p", { class: "callout warn" }, reason(one)),
    facts([
      ["System", one.system],
      ["How it closes", { hold: "a health probe", trials: "trial calls" }[one.mode] ?? "only a person opens it"],
      ["Last calls", calls(one)],
      ["Jobs held", text(one.parked)],
      ["Open for", one.open_s ? span(one.open_s) : ""],
      ["The provider asked to wait until", when(one.not_before)],
      [
        "Waiting jobs",
        link(`#jobs?${new URLSearchParams({ system, provider: name, state: "queued" })}`, "queued jobs that need it"),
      ],
    ]),
    el("h3", {}, "History"),
    table(
      [
        ["When", (row) => when(row.at)],
        ["Gate", (row) => pill(row.gate)],
        ["Why", (row) => (row.gate === "half_open" ? "its pause is over: trial calls decide" : text(row.reason))],
      ],
      past.items,
      null,
      "Its gate has never changed.",
    ),
    el("h3", {}, "By hand"),
    table(
      [
        ["When", (row) => when(row.at)],
        ["Who", "actor"],
        ["What", "action"],
        ["Why", (row) => text(row.data?.reason)],
      ],
      acts.items,
      null,
      "Nobody has opened or closed it.",
    ),
  );
}

function reason(row) {
  if (row.gate === "closed") return "";
  const until = row.forced
    ? "until a person closes it"
    : row.open_until
      ? `until ${new Date(row.open_until).toLocaleTimeString([], { hourCycle: "h23" })}`
      : "until a health probe finds it well";
  const words = row.gate === "half_open" ? "half open: only a few trial calls go through" : `open ${until}`;
  return `${words}${row.reason ? `; ${row.reason}` : ""}`;
}

const calls = (row) =>
  row.calls_in_window ? `${row.failures_in_window} of ${count(row.calls_in_window, "call")} failed` : "none yet";

function button(row, again) {
  const opens = row.gate === "closed";
  const verb = opens ? "open" : "close";
  const words = opens
    ? "All calls to it stop until a person closes it. Its jobs wait and spend nothing."
    : "Calls go through again; what was held drains a few at a time.";
  const run = async () => {
    const given = await ask(`${opens ? "Open" : "Close"} the breaker of ${row.name}?`, {
      words,
      fields: [{ name: "reason", label: "Why", required: true }],
      verb: opens ? "Open it" : "Close it",
      danger: opens,
    });
    return (
      given &&
      api(`/api/ops/breakers/${encodeURIComponent(row.name)}/${verb}?${new URLSearchParams({ system: row.system })}`, {
        method: "POST",
        body: given,
      })
    );
  };
  return el(
    "button",
    {
      class: opens ? "danger" : null,
      onclick: doing(run, `The breaker of ${row.name} is ${opens ? "open" : "closed"}.`, again, `/api/ops/breakers/{name}/${verb}`),
      "aria-label": `${opens ? "Open" : "Close"} the breaker of ${row.name}`,
    },
    opens ? "Open" : "Close",
  );
}
