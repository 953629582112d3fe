// Break it yourself: switches for every provider and worker of this process, jobs to send, and the account. Everything
// that is shown was counted by the server, from the databases.
import { api, el, morph, who } from "./holdfast.js";
import { fieldsFor } from "./mend.js";
import { count, doing, field, say } from "./parts.js";

const LOOK_MS = 1000;
const FAULTS = [
  ["none", "works"],
  ["down", "down (503)"],
  ["slow", "slow"],
  ["busy", "429"],
  ["lost", "loses answers"],
];
const box = document.querySelector("#playground");
const post = (path, body) => api(`/api/playground/${path}`, { method: "POST", body });

const figure = (name, value, kind) =>
  el("div", { class: `figure ${kind ?? ""}` }, el("strong", {}, String(value)), el("span", {}, name));
const sign = (mark) => el("span", { class: "sign", "aria-hidden": "true" }, mark);

function account(now) {
  const shares = [
    ["done", now.done],
    ["running", now.running],
    ["held", now.held],
    ["queued", now.waiting - now.running - now.held],
    ["dead", now.dead + now.lost],
  ];
  return el(
    "div",
    { id: "account", "aria-live": "off" },
    el(
      "div",
      { class: "sum" },
      figure("accepted", now.accepted),
      sign("="),
      figure("done", now.done, "good"),
      sign("+"),
      figure("waiting", now.waiting, now.waiting ? "warn" : ""),
      sign("+"),
      figure("dead", now.dead + now.cancelled, now.dead ? "error" : ""),
    ),
    bar(shares, now.accepted),
    el(
      "p",
      { class: "small" },
      el("span", { class: `pill ${now.lost ? "error" : "good"}` }, `${now.lost} lost`),
      " ",
      el("span", { class: `pill ${now.twice ? "error" : "good"}` }, `${now.twice} twice`),
      el("span", { class: "soft" }, ` ${count(now.performed, "effect")} at the providers; ${now.running} running, ${now.held} held by a breaker`),
    ),
  );
}

const NS = "http://www.w3.org/2000/svg";
function bar(shares, all) {
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", "0 0 1000 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "shares");
  svg.setAttribute("aria-hidden", "true");
  let x = 0;
  for (const [name, number] of shares) {
    const wide = all ? (1000 * Math.max(0, number)) / all : 0;
    const part = document.createElementNS(NS, "rect");
    for (const [key, value] of Object.entries({ x, width: wide, height: 10, class: name })) part.setAttribute(key, value);
    svg.append(part);
    x += wide;
  }
  return svg;
}

function switches(systems) {
  const [first, ...rest] = [...systems].sort((one, other) => Number(!one.kinds.length) - Number(!other.kinds.length));
  return el(
    "div",
    { id: "switches" },
    first && panel(first),
    rest.length
      ? el("details", {}, el("summary", {}, `Providers and workers of ${count(rest.length, "more system")}`), rest.map(panel))
      : null,
  );
}

const panel = (system) =>
  el(
    "fieldset",
    { key: system.name },
    el("legend", {}, system.title),
    system.providers.map((provider) => line(system, provider)),
    el(
      "div",
      { class: "switch-line" },
      el("span", { class: "name" }, system.workers ? count(system.workers, "worker") : "no worker at the moment"),
      el(
        "button",
        { type: "button", class: "danger", disabled: !system.workers, onclick: () => kill(system) },
        system.workers === 1 ? "Kill the worker" : "Kill the workers",
      ),
      system.killed ? el("span", { class: "soft small" }, `killed ${count(system.killed, "time")}`) : null,
    ),
  );

const line = (system, provider) =>
  el(
    "div",
    { class: "switch-line", role: "group", "aria-label": provider.name },
    el("span", { class: "name" }, provider.name),
    el(
      "span",
      { class: "switch" },
      FAULTS.map(([fault, words]) =>
        el(
          "button",
          {
            type: "button",
            class: fault === "none" ? "works" : null,
            "aria-pressed": String(provider.fault === fault),
            onclick: () => act(post("faults", { system: system.name, provider: provider.name, fault })),
          },
          words,
        ),
      ),
    ),
    provider.gate === "closed"
      ? null
      : el("span", { class: `pill ${provider.gate === "open" ? "error" : "warn"}` }, `breaker ${provider.gate.replace("_", " ")}`),
    provider.held ? el("span", { class: "soft small" }, `${provider.held} held`) : null,
  );

async function act(asked) {
  try {
    await asked;
  } catch (error) {
    say(error.message, "error");
  }
  look();
}

async function kill(system) {
  try {
    const { workers, lease_s } = await post("kill", { system: system.name });
    say(`Killed ${count(workers.length, "worker")}. What was held comes back when the leases end, within ${lease_s} s.`, "warn");
  } catch (error) {
    say(error.message, "error");
  }
  look();
}

// The form of a kind: its own input, made of its schema. It is made once; what was typed stays.
function sendForm(systems) {
  const offers = systems.flatMap((system) => system.kinds.map((kind) => ({ system, kind })));
  const form = document.querySelector("#send");
  if (form.dataset.ready || !offers.length) return;
  form.dataset.ready = "yes";
  const options = offers.map(({ kind }, number) => [String(number), kind.name]);
  const inputs = el("div", {});
  let asked = [];
  const choose = (number) => {
    const schema = offers[number].kind.input_schema;
    asked = schema?.properties ? fieldsFor(defaultsOf(schema), schema) : [];
    const plain = field({ name: "json", id: "send-json", label: "Input (JSON)", kind: "long", value: "null" });
    inputs.replaceChildren(...(asked.length ? asked.map(([, { read, ...one }]) => field(one)) : [plain]));
  };
  const run = async () => {
    const { system, kind } = offers[Number(form.elements.kind?.value ?? 0)];
    const input = asked.length ? valuesOf(form, asked) : JSON.parse(form.elements.json.value);
    return post("jobs", { system: system.name, kind: kind.name, input, count: Number(form.elements.count.value) });
  };
  form.append(
    ...[
      el("h3", {}, "Send some work"),
      offers.length > 1 ? null : el("p", { class: "soft small" }, el("code", {}, offers[0].kind.name)),
      offers.length > 1 ? field({ name: "kind", id: "send-kind", label: "Kind", kind: "select", options }) : null,
      inputs,
      el(
        "div",
        { class: "row" },
        field({ name: "count", id: "send-count", label: "How many", kind: "select", value: "50", options: ["1", "10", "50", "200"].map((n) => [n, n]) }),
        el("button", {}, "Send"),
      ),
    ].filter(Boolean),
  );
  form.elements.kind?.addEventListener("change", () => choose(Number(form.elements.kind.value)));
  form.onsubmit = doing(run, (done) => `${count(done.job_ids.length, "job")} accepted.`, look);
  choose(0);
}

const defaultsOf = (schema) =>
  Object.fromEntries(
    Object.entries(schema.properties)
      .filter(([, type]) => type.default !== undefined && type.default !== null)
      .map(([name, type]) => [name, type.default]),
  );

function valuesOf(form, asked) {
  const values = {};
  for (const [name, { read }] of asked) {
    const input = form.elements[`input.${name}`];
    const value = read(input.value, input);
    if (value !== null) values[name] = value;
  }
  return values;
}

let waits = null;
async function look() {
  if (!who()) return;
  clearTimeout(waits);
  try {
    const now = await api("/api/playground");
    box.hidden = false;
    sendForm(now.systems);
    morph(document.querySelector("#account"), account(now.account));
    morph(document.querySelector("#switches"), switches(now.systems));
  } catch (error) {
    if (error.status === 401 || error.status === 403) return; // for an operator at this machine only
  }
  waits = setTimeout(look, document.hidden ? 5 * LOOK_MS : LOOK_MS);
}
look();
