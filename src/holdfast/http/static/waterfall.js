// A job's life on a time axis: a line for each attempt, call, effect and gap, with its reason in words.
import { shape } from "./charts.js";
import { el } from "./holdfast.js";
import { span } from "./parts.js";

const WIDE = 1000;
const HIGH = 14;
const SEEN = 4; // what took no time is seen all the same
const TICKS = 5;

const time = (value) => new Date(value).getTime();

export function waterfall(one) {
  const now = time(one.finished_at && one.state !== "dead" ? one.waterfall.at(-1)?.until ?? one.now : one.now);
  const bars = one.waterfall.map((bar) => ({ ...bar, from: time(bar.since), to: bar.until ? time(bar.until) : now }));
  if (!bars.length) return el("p", { class: "soft" }, "Nothing has happened yet.");
  const from = Math.min(...bars.map((bar) => bar.from));
  const to = Math.max(from + 1, ...bars.map((bar) => bar.to));
  return el(
    "div",
    { class: "waterfall", role: "table", "aria-label": "Waterfall" },
    axis(from, to),
    bars.map((bar, number) => line(bar, number, from, to)),
  );
}

function axis(from, to) {
  const ticks = Array.from({ length: TICKS }, (_, number) => el("span", {}, `+${span(((to - from) / 1000) * (number / (TICKS - 1)))}`));
  return el(
    "div",
    { class: "lane axis", role: "row" },
    el("span", { role: "columnheader" }, `from ${new Date(from).toLocaleTimeString([], { hourCycle: "h23" })}`),
    el("span", { class: "ticks", role: "columnheader" }, ticks),
    el("span", { class: "took", role: "columnheader" }, "took"),
  );
}

function line(bar, number, from, to) {
  const place = (at) => ((at - from) / (to - from)) * WIDE;
  const wide = Math.max(SEEN, place(bar.to) - place(bar.from));
  const x = Math.min(place(bar.from), WIDE - wide);
  const took = span((bar.to - bar.from) / 1000);
  const box = { class: `${bar.what} ${bar.tone}`, x: x.toFixed(1), y: 1, width: wide.toFixed(1), height: HIGH - 2, rx: 3 };
  const words = `${bar.title}, ${took}${bar.reason ? `: ${bar.reason}` : ""}`;
  const svg = shape("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": words });
  svg.append(shape("rect", box, shape("title", {}, words)));
  return el(
    "div",
    { class: `lane is-${bar.what}`, role: "row", key: `${number}-${bar.what}-${bar.title}` },
    el("span", { class: "name", role: "cell" }, bar.title, bar.reason ? el("small", { class: bar.tone }, bar.reason) : null),
    el("span", { class: "track", role: "cell" }, svg),
    el("span", { class: "took", role: "cell" }, took, bar.until ? "" : " so far"),
  );
}
