// The first look: what asks for a person, then each system's last hour.
import { api, el, who } from "/static/holdfast.js";
import { barChart, lineChart, providerChart } from "/static/charts.js";
import { count, link, span } from "/static/parts.js";

export async function overview() {
  const [now, past, doubts, aside, reviews] = await Promise.all([
    api("/api/ops/overview"),
    api("/api/ops/history"),
    api("/api/ops/effects?status=review&limit=100"),
    api("/api/ops/outbox?status=failed&limit=100"),
    instructorQueue(),
  ]);
  const byName = new Map(past.items.map((one) => [one.system, one]));
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Overview"),
    asks(now.items, doubts.items, aside.items, reviews),
    now.items.map((one) => card(one, byName.get(one.system))),
  );
}

async function instructorQueue() {
  if (!who()?.roles.includes("instructor")) return [];
  try {
    return (await api("/api/instructor/queue?limit=200")).items;
  } catch {
    return []; // grading does not run here
  }
}

function asks(systems, doubts, aside, reviews) {
  const sum = (state) => systems.reduce((all, one) => all + (one.dead_letters[state] ?? 0), 0);
  const working = sum("open") + sum("triaged") + sum("remediated");
  const lines = [
    sum("escalated") &&
      link(
        "#dead",
        `${count(sum("escalated"), "dead letter")} escalated: mended, replayed, and dead again in the same way`,
      ),
    working && link("#dead", `${count(working, "dead letter")} to work on`),
    ...systems.flatMap((one) =>
      one.breakers_not_closed.map((name) =>
        link(
          `#breaker/${encodeURIComponent(one.system)}/${encodeURIComponent(name)}`,
          `${name} is not called at present: its breaker is not closed`,
        ),
      ),
    ),
    doubts.length &&
      link(
        "#outbox",
        `${count(doubts.length, "delivery")} in doubt: only a person can know whether it happened`.replace(
          "deliverys",
          "deliveries",
        ),
      ),
    aside.length && link("#outbox", `${count(aside.length, "message")} set aside after the last try`),
    reviews.length && link("#queue", `${count(reviews.length, "grade")} waiting for an instructor`),
  ].filter(Boolean);
  if (!lines.length) return el("p", { class: "callout good", key: "well" }, "Nothing asks for a person.");
  return el(
    "div",
    { class: "callout warn", key: "asks" },
    el("strong", {}, "Asks for a person"),
    el(
      "ul",
      {},
      lines.map((line) => el("li", {}, line)),
    ),
  );
}

function card(one, past) {
  const depth = (state) => one.lanes.filter((lane) => lane.state === state).reduce((sum, lane) => sum + lane.jobs, 0);
  return el(
    "section",
    { class: "card", key: one.system, "aria-label": one.title },
    el(
      "div",
      { class: "head" },
      el("h2", {}, one.title),
      state(one, depth("queued")),
      el(
        "span",
        { class: "soft small" },
        one.runs_jobs
          ? `${depth("queued")} queued, ${depth("parked")} held, ${depth("processing")} running, ${depth("waiting")} waiting for a callback; ${count(one.workers, "worker")}`
          : "has no jobs of its own",
      ),
    ),
    one.undeclared.map((each) =>
      el(
        "p",
        { class: "callout warn", key: `${each.kind}/${each.stage}` },
        `${count(each.jobs, "job")} due: no running worker declares the stage ${each.stage} of ${each.kind}. Start a worker whose code has it.`,
      ),
    ),
    one.held_back && el("p", { class: "callout warn", key: "held-back" }, one.held_back),
    past && (one.runs_jobs ? charts(past) : el("div", { class: "charts" }, messages(past))),
  );
}

function state(one, queued) {
  if (queued && !one.workers) return pill2("error", "no worker");
  if (one.undeclared.length) return pill2("warn", "no worker declares a stage");
  if (one.held_back) return pill2("warn", "an old transaction");
  if (one.breakers_not_closed.length) return pill2("warn", "a provider is held");
  if (one.dead_letters_open) return pill2("warn", "dead letters");
  return pill2("good", "well");
}
const pill2 = (kind, words) => el("span", { class: `pill ${kind}` }, words);

const whole = (value) => String(Math.round(value));
const looksOf =
  (past) =>
  (...names) =>
    past.looks.map((one) => ({ at: one.at, value: names.reduce((sum, name) => sum + one[name], 0) }));
const messages = (past) => lineChart("Messages to publish", past, [looksOf(past)("outbox_pending")], whole);

function charts(past) {
  const looks = looksOf(past);
  const rates = past.minutes.map((one) => ({ at: one.at, value: one.error_rate * 100 }));
  const recent = past.minutes.slice(-5);
  const done = recent.reduce((sum, one) => sum + one.done, 0) / Math.max(1, recent.length);
  return el(
    "div",
    { class: "charts" },
    lineChart("Waiting jobs", past, [looks("queued", "held"), looks("held")], whole),
    lineChart("Oldest waits", past, [looks("oldest_age_s")], span),
    barChart("Done", past.minutes, "done", "died", `${done.toFixed(1)}/min`),
    lineChart("Attempts that failed", past, [rates], (value) => `${Math.round(value)} %`),
    messages(past),
    past.providers.map((provider) => providerChart(provider, past, (ms) => span(ms / 1000))),
  );
}
