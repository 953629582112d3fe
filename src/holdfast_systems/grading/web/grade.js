// A grade as people read it: the score, the band, and each criterion with its words.
import { el } from "../holdfast.js";

const NAMES = {
  taskAchievement: "Task achievement",
  coherence: "Coherence",
  coherenceAndCohesion: "Coherence and cohesion",
  lexis: "Vocabulary",
  lexicalResource: "Vocabulary",
  grammar: "Grammar",
  grammaticalRange: "Grammar",
  fluency: "Fluency",
  pronunciation: "Pronunciation",
};
export const criterionName = (name) =>
  NAMES[name] ?? name.replace(/([a-z])([A-Z])/g, "$1 $2").replace(/^./, (first) => first.toUpperCase());

export function gradeView(result, { by = "", title = null } = {}) {
  return el(
    "div",
    { class: "result grade" },
    title && el("h3", {}, title),
    el(
      "p",
      { class: "score" },
      el("strong", {}, `${result.overallScore ?? "?"} / 10`),
      el("span", {}, `, band ${result.band ?? "?"}`),
    ),
    el("p", { class: "soft small" }, `The machine's confidence: ${result.confidenceScore ?? "?"} %${by}`),
    result.transcript ? el("blockquote", {}, result.transcript) : null,
    el(
      "dl",
      { class: "criteria" },
      Object.entries(result.criteria ?? {}).map(([name, one]) =>
        el(
          "div",
          {},
          el("dt", {}, criterionName(name)),
          el("dd", {}, meter(one?.score), el("strong", {}, String(one?.score ?? "")), " ", one?.feedback ?? ""),
        ),
      ),
    ),
    result.instructorFeedback ? el("p", {}, `The instructor: ${result.instructorFeedback}`) : null,
  );
}

const meter = (score) => el("meter", { min: "0", max: "10", value: String(score ?? 0), "aria-hidden": "true" });
