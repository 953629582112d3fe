// The replay of a group of dead letters: how far it is, what became of the letters, and a hand on it.
import { api, el } from "./holdfast.js";
import { closing } from "./console-letters.js";
import { count, doing, facts, idCell, link, pill, table, text, when } from "./parts.js";

const SHOWN = [
  ["succeeded", "succeeded", "good"],
  ["processing", "running", ""],
  ["queued", "queued", ""],
  ["waiting", "not begun", "soft"],
  ["dead", "dead again", "error"],
  ["refused", "refused", "error"],
  ["cancelled", "cancelled", "warn"],
  ["gone", "pruned", "soft"],
];
const VERBS = {
  running: [
    ["pause", "Pause", "It takes no further letter."],
    ["stop", "Stop", "It is stopped; the rest stays as it was."],
  ],
  paused: [
    ["resume", "Go on", "It goes on."],
    ["stop", "Stop", "It is stopped; the rest stays as it was."],
  ],
};

export async function replay({ parts: [id] }, again) {
  const one = await api(`/api/ops/replays/${encodeURIComponent(id)}`);
  const got = (name) => one.outcomes[name] ?? 0;
  const ended = ["succeeded", "dead", "refused", "cancelled", "gone"].reduce((sum, name) => sum + got(name), 0);
  const hand = ([verb, title, said]) =>
    el(
      "button",
      {
        class: verb === "stop" ? "danger" : "quiet",
        onclick: doing(() => api(`/api/ops/replays/${one.id}/${verb}`, { method: "POST" }), said, again, `/api/ops/replays/{replay_id}/${verb}`),
      },
      title,
    );
  const number = (states) => (states.includes("replayed") ? got("succeeded") : 0);
  return el(
    "div",
    {},
    el(
      "div",
      { class: "head" },
      el("h2", { tabindex: "-1" }, `Replay of ${one.error_class} in ${one.stage}`),
      pill(one.state),
      el("div", { class: "end" }, (VERBS[one.state] ?? []).map(hand)),
    ),
    el("progress", { max: String(one.letters), value: String(ended), "aria-label": "Letters whose outcome is known" }),
    el(
      "p",
      { role: "status" },
      `${ended} of ${count(one.letters, "letter")} have ended: `,
      SHOWN.filter(([name]) => got(name)).map(([name, words, kind], at) => [at ? ", " : "", el("span", { class: kind }, `${got(name)} ${words}`)]),
      ".",
    ),
    one.state !== "running" && one.state !== "paused" && ended === one.letters - (one.state === "stopped" ? got("waiting") : 0)
      ? closing({ system: one.system, fingerprint: one.fingerprint, ids: null, number }, again)
      : null,
    facts([
      ["Group", link(`#group/${encodeURIComponent(one.system)}/${one.fingerprint}`, one.fingerprint)],
      ["Kind", one.kind],
      ["Who", one.actor],
      ["What was fixed", one.evidence ?? "replayed as it is"],
      ["Set in every input", one.set ? text(one.set) : null],
      ["From", one.is_full ? "the first stage" : one.stage],
      ["Letters a minute", text(one.per_minute ?? "all at once")],
      ["Begun", when(one.created_at)],
      ["The last begins", when(one.last_begins_at)],
      ["Ended", when(one.ended_at)],
    ]),
    one.troubles.length
      ? [
          el("h3", {}, "What went wrong again"),
          table(
            [
              ["Letter", idCell(one.troubles, "letter", "letter_id")],
              ["Why", "detail"],
            ],
            one.troubles,
            (row) => row.letter_id,
          ),
        ]
      : null,
  );
}
