// The instructor queue: what the AI was not sure of. Claim one, read it, grade it; or give it back.
import { api, el, uuid, who } from "../holdfast.js";
import { ago, doing, field, pill, short, text } from "../parts.js";

const BANDS = ["", "A1", "A2", "B1", "B2", "C1"].map((band) => [band, band || "the band of the score"]);

export async function instructor(place, again) {
  const me = who();
  if (!me?.roles.includes("instructor")) {
    return el(
      "div",
      {},
      el("h2", { tabindex: "-1" }, "Instructor queue"),
      el("p", { class: "callout warn" }, "This needs the role instructor, which your token does not have."),
    );
  }
  const { items } = await api("/api/instructor/queue");
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Instructor queue"),
    el(
      "p",
      { class: "soft" },
      "Grades that the AI was not sure of, by priority and then by age. Within half a point and one band of the AI's the two are weighed; else yours stands.",
    ),
    items.length
      ? items.map((row) => card(row, me, again))
      : el("p", { class: "callout good" }, "Nothing waits for an instructor."),
  );
}

function card(row, me, again) {
  const mine = row.claimedBy === me.sub;
  const act = (verb, words) =>
    doing(() => api(`/api/submissions/${row.id}/review/${verb}`, { method: "POST" }), words, again);
  const ai = row.aiResult ?? {};
  return el(
    "section",
    { class: "card", key: `${row.id}-${mine}`, "aria-label": `Submission ${row.id}` },
    el(
      "div",
      { class: "head" },
      el("h3", {}, `${row.skill}, ${text(ai.overallScore)} by the AI`),
      pill(row.reviewPriority),
      el(
        "span",
        { class: "soft small" },
        `band ${text(ai.band)}, confidence ${text(ai.confidenceScore)} %, came ${ago(row.createdAt)}`,
      ),
      el(
        "div",
        { class: "end" },
        !row.claimedBy
          ? el("button", { onclick: act("claim", "It is yours.") }, "Claim")
          : mine
            ? el("button", { class: "quiet", onclick: act("release", "It is back in the queue.") }, "Release")
            : el(
                "span",
                { class: "soft" },
                `claimed by ${row.claimedBy}`,
                me.roles.includes("operator")
                  ? el("button", { class: "quiet", onclick: act("release", "It is back in the queue.") }, "Release")
                  : null,
              ),
      ),
    ),
    el("p", {}, mine ? work(row) : short(work(row), 300)),
    mine ? el("div", {}, el("ul", { class: "small" }, criteria(ai)), form(row, again)) : null,
  );
}

const work = (row) => text(row.aiResult?.transcript ?? row.payload?.text ?? row.payload?.audioUrl);
const criteria = (ai) =>
  Object.entries(ai.criteria ?? {}).map(([name, one]) =>
    el("li", {}, `${name}: ${text(one?.score)}. ${text(one?.feedback)}`),
  );

// A review that is sent twice by a slow line counts once: it has a key of its own.
const keys = new Map();

function form(row, again) {
  const run = async (event) => {
    const { score, band, feedback } = event.target.elements;
    if (!keys.has(row.id)) keys.set(row.id, uuid());
    const body = { overallScore: Number(score.value), band: band.value || null, feedback: feedback.value || null };
    return api(`/api/submissions/${row.id}/review`, {
      method: "POST",
      body,
      headers: { "Idempotency-Key": keys.get(row.id) },
    });
  };
  const said = (done) =>
    `Graded: ${done.finalResult?.overallScore} ${done.mode === "hybrid" ? "from the AI's and yours" : "as you said"}.`;
  return el(
    "form",
    { onsubmit: doing(run, said, again) },
    el(
      "div",
      { class: "row" },
      field({
        name: "score",
        label: "Your score, 0 to 10",
        kind: "number",
        min: "0",
        max: "10",
        step: "0.1",
        required: true,
        id: `score-${row.id}`,
      }),
      field({ name: "band", label: "Band", kind: "select", options: BANDS, id: `band-${row.id}` }),
    ),
    field({ name: "feedback", label: "Feedback to the learner", kind: "long", id: `feedback-${row.id}` }),
    el("button", {}, "Submit the grade"),
  );
}
