// Outbox and deliveries: what has not gone out, and in words why.
import { api, el } from "./holdfast.js";
import { ago, ask, count, doing, field, link, pill, table, text } from "./parts.js";

const MESSAGES = [
  ["stuck", "not published"],
  ["pending", "pending"],
  ["failed", "set aside"],
  ["published", "published"],
];
const EFFECTS = [
  ["stuck", "not sent, or in doubt"],
  ["review", "asking for a person"],
  ["unknown", "in doubt"],
  ["sending", "being sent"],
  ["failed", "failed"],
  ["sent", "sent"],
];
const DOUBTS = ["review", "unknown", "sending", "failed"];

export async function outbox({ query }, again) {
  const message = query.get("message") ?? "stuck";
  const effect = query.get("effect") ?? "stuck";
  const [messages, effects, { items: now }] = await Promise.all([
    rows("outbox", message, ["failed", "pending"]),
    rows("effects", effect, DOUBTS),
    api("/api/ops/overview"),
  ]);
  const without = new Set(now.filter((one) => one.asks.some((notice) => notice.topic === "broker_down")).map((one) => one.system));
  const go = (change) => {
    location.hash = `outbox?${new URLSearchParams({ message, effect, ...change })}`;
  };
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Outbox and deliveries"),
    head(
      "Messages to the broker",
      chooser("message", MESSAGES, message, (value) => go({ message: value })),
    ),
    table(
      [
        ["System", "system"],
        ["To", "destination"],
        ["Type", "message_type"],
        ["Status", (row) => pill(row.status)],
        ["Why", (row) => whyMessage(row, messages, without)],
        ["Written", (row) => ago(row.created_at)],
        [
          "Belongs to",
          (row) => link(`#jobs?${new URLSearchParams({ q: row.aggregate_id })}`, el("code", {}, row.aggregate_id)),
        ],
        [
          "",
          (row) =>
            row.status === "failed"
              ? el(
                  "button",
                  {
                    class: "quiet",
                    onclick: doing(
                      () =>
                        api(`/api/ops/outbox/${row.id}/requeue?system=${encodeURIComponent(row.system)}`, {
                          method: "POST",
                        }),
                      "It is published again.",
                      again,
                      "/api/ops/outbox/{message_id}/requeue",
                    ),
                  },
                  "Publish again",
                )
              : null,
        ],
      ],
      messages,
      (row) => row.id,
      message === "stuck" ? "Nothing is stuck: every message is out." : "None.",
    ),
    head(
      "Deliveries and other effects",
      chooser("effect", EFFECTS, effect, (value) => go({ effect: value })),
    ),
    table(
      [
        ["System", "system"],
        ["Key", (row) => el("code", {}, row.key)],
        ["Through", "provider"],
        ["Status", (row) => pill(row.status)],
        ["Why", (row) => whyEffect(row)],
        ["Sends", "sends"],
        ["Provider's id", "provider_id"],
        ["Job", (row) => (row.job_id ? link(`#job/${row.job_id}`, "its story") : "")],
        ["", (row) => answers(row, again)],
      ],
      effects,
      (row) => row.key,
      effect === "stuck" ? "Nothing is stuck: every delivery is known to have happened." : "None.",
    ),
  );
}

async function rows(path, chosen, stuck) {
  const states = chosen === "stuck" ? stuck : [chosen];
  const found = await Promise.all(
    states.map((status) => api(`/api/ops/${path}?${new URLSearchParams({ status, limit: "100" })}`)),
  );
  return found.flatMap((one) => one.items);
}

const head = (title, end) => el("div", { class: "head" }, el("h3", {}, title), el("div", { class: "end" }, end));
function chooser(name, options, value, choose) {
  const made = field({ name, label: "Show", kind: "select", options, value });
  made.querySelector("select").onchange = (event) => choose(event.target.value);
  return made;
}

function whyMessage(row, all, without) {
  if (row.status === "published") return "";
  if (row.status === "failed")
    return `Set aside after ${count(row.retry_count, "refusal")}: ${text(row.error_message)}`;
  const older = all.find(
    (one) =>
      one.aggregate_id === row.aggregate_id &&
      one.status === "pending" &&
      one.system === row.system &&
      one.seq < row.seq,
  );
  if (older) return "It waits for an older message of the same sender: they go out in order.";
  if (row.retry_count)
    return `Refused ${count(row.retry_count, "time")}, again at ${new Date(row.available_at).toLocaleTimeString([], { hourCycle: "h23" })}: ${text(row.error_message)}`;
  if (row.error_message) return `It goes out when the broker is back: ${row.error_message}`;
  return without.has(row.system) ? "It goes out when the broker is back." : "It waits for the relay's next round.";
}

// Nobody but a person can tell, for its provider can be asked by nobody.
const asksAPerson = (row) => row.status === "review" || (row.status === "unknown" && row.provider_class === "neither");

function whyEffect(row) {
  const error = row.error ? `: ${text(row.error)}` : "";
  return (
    {
      review: `Only a person can know whether it happened: ${row.provider} offers no way to ask${error}`,
      unknown: `It was sent and no answer came; it is looked up before it is sent again${error}`,
      sending: "It was begun, and nobody has said how it ended; if its worker is gone it is looked up",
      failed: `Refused for good${error}`,
      planned: "It is to be sent",
      sent: "",
    }[asksAPerson(row) ? "review" : row.status] ?? ""
  );
}

function answers(row, again) {
  if (!asksAPerson(row)) return null;
  const run = (sent) => async () => {
    const fields = sent ? [{ name: "provider_id", label: "The provider's id, if it is known" }] : [];
    const words = sent ? "It counts as sent and is never sent again." : "It is sent again when its job is replayed.";
    const given = await ask(sent ? "It has happened?" : "It has not happened?", {
      words,
      fields,
      verb: sent ? "It has happened" : "It has not",
      danger: !sent,
    });
    return (
      given &&
      api(`/api/ops/effects/answer?system=${encodeURIComponent(row.system)}`, {
        method: "POST",
        body: { key: row.key, sent, provider_id: given.provider_id || null },
      })
    );
  };
  return el(
    "span",
    { class: "acts" },
    el("button", { class: "quiet", onclick: doing(run(true), "Recorded as sent.", again, "/api/ops/effects/answer") }, "It happened"),
    el("button", { class: "quiet", onclick: doing(run(false), "Recorded as not sent.", again, "/api/ops/effects/answer") }, "It did not"),
  );
}
