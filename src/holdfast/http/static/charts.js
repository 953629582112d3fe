// Charts over time, drawn as SVG from the points of a roll-up. A pointer over one reads its values; a drag across it zooms
// in; a click goes to the jobs behind the point. Small ones have their axes in words below, large ones beside them.
import { el } from "./holdfast.js";

const NS = "http://www.w3.org/2000/svg";
const SMALL = { wide: 300, high: 56, left: 0, foot: 0 };
const LARGE = { wide: 480, high: 170, left: 46, foot: 18 };

export function shape(tag, attributes, ...children) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const tenth = (number) => number.toFixed(1);
export const clock = (time, long) =>
  new Date(time).toLocaleString([], { ...(long ? { day: "numeric", month: "short" } : {}), hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

// The chart that a pointer is over, and where: a refresh leaves what it reads there.
let pointed = { chart: null, at: null };

// `series` are [{ name, kind, value }]: `bar` and `bad` are stacked, `line` and `second` are curves; a value of null is a gap.
// `now` is what the chart says while nobody points at it, `foot` what it says of the whole stretch.
export function timeChart(title, item, series, { show = String, now = null, foot = null, large = false, points = item.points, jobs = null } = {}) {
  const box = large ? LARGE : SMALL;
  const plotHigh = box.high - box.foot;
  const wide = (box.wide - box.left) / Math.max(1, points.length);
  const values = series.map((one) => points.map(one.value));
  const stacked = series.map((one) => one.kind === "bar" || one.kind === "bad");
  const sums = points.map((_, at) => values.reduce((sum, list, number) => sum + (stacked[number] ? (list[at] ?? 0) : 0), 0));
  const curves = values.filter((_, number) => !stacked[number]).flat();
  const most = Math.max(0, ...sums, ...curves.map((value) => value ?? 0));
  const top = most || 1;
  const x = (at) => box.left + at * wide;
  const y = (value) => plotHigh - 1 - (value / top) * (plotHigh - 8);
  const long = item.step_s * points.length > 86400;
  const rest = now ?? lastOf(values[0], show);
  const words = foot ?? (most ? `most ${show(most)}` : "nothing");
  const svg = shape("svg", {
    ...(large ? { width: "100%" } : { class: "plot", preserveAspectRatio: "none" }),
    viewBox: `0 0 ${box.wide} ${box.high}`,
    role: item.marks.length ? "group" : "img", // a mark leads somewhere, and a picture may hold no link
    "aria-label": `${title}: ${rest}, ${words}`,
  });
  svg.append(shape("line", { class: "base", x1: box.left, x2: box.wide, y1: plotHigh - 1, y2: plotHigh - 1 }));
  if (large) svg.append(...axes(box, top, show, points, x, y, long));
  const feet = points.map(() => 0);
  series.forEach((one, number) => {
    if (stacked[number]) svg.append(...bars(one, values[number], feet, x, y, wide, plotHigh));
    else svg.append(...lines(one, values[number], (at) => x(at + 0.5), y, plotHigh - 1));
  });
  svg.append(...marks(item, box, plotHigh));
  const chart = `${location.hash}/${item.system}/${title}`;
  const isPointed = pointed.chart === chart && pointed.at < points.length;
  const cursor = isPointed ? tenth(x(pointed.at + 0.5)) : -9;
  svg.append(shape("line", { class: "base cursor", x1: cursor, x2: cursor, y1: 0, y2: plotHigh }));
  const read = (at) => series.map((one, number) => `${one.name} ${values[number][at] === null ? "none" : show(values[number][at])}`).join(", ");
  const wordsAt = (at) => `${clock(points[at].at, long)}: ${read(at)}`;
  // A refresh keeps the figure that is seen and hands these over to it: they look at that one.
  const tell = (figure, at, words) => {
    for (const end of ["x1", "x2"]) figure.querySelector(".cursor").setAttribute(end, at);
    figure.querySelector("strong").textContent = words;
  };
  const place = ({ currentTarget: figure, clientX }) => {
    const { left, width } = figure.querySelector("svg").getBoundingClientRect();
    const at = Math.floor((((clientX - left) / width) * box.wide - box.left) / wide);
    return at < 0 || at >= points.length ? null : at;
  };
  return el(
    "figure",
    {
      class: large ? "timechart" : "chart",
      key: title,
      onpointermove: (event) => {
        const at = place(event);
        if (at === null) return;
        pointed = { chart, at };
        tell(event.currentTarget, tenth(x(at + 0.5)), wordsAt(at));
      },
      onpointerleave: (event) => {
        pointed = { chart: null, at: null };
        tell(event.currentTarget, -9, rest);
        event.currentTarget.from = null;
      },
      onpointerdown: (event) => {
        event.currentTarget.from = event.target.closest("svg") && !event.target.closest("a") ? place(event) : null;
        if (event.currentTarget.from !== null) event.preventDefault(); // a drag selects time, and no words
      },
      onpointerup: (event) => {
        const [from, to] = [event.currentTarget.from ?? null, place(event)];
        event.currentTarget.from = null;
        if (from === null || to === null) return;
        const [first, last] = [Math.min(from, to), Math.max(from, to)];
        if (last > first) zoom(item, points, first, last);
        else if (jobs) location.hash = jobs(points[first], item);
      },
    },
    el("figcaption", {}, el("span", {}, title), " ", el("strong", {}, isPointed ? wordsAt(pointed.at) : rest)),
    svg,
    large
      ? null
      : el("div", { class: "foot" }, el("span", {}, clock(item.since, long)), el("span", {}, words), el("span", {}, clock(item.until, long))),
  );
}

// The address of the stretch from one point to another, as the view of time reads it.
function zoom(item, points, first, last) {
  const since = new Date(points[first].at).getTime();
  const until = new Date(points[last].at).getTime() + item.step_s * 1000;
  const query = new URLSearchParams(location.hash.startsWith("#time") ? (location.hash.split("?")[1] ?? "") : "");
  query.set("minutes", Math.max(5, Math.round((until - since) / 60000)));
  query.set("until", until - 1);
  if (item.system) query.set("system", item.system);
  location.hash = `time?${query}`;
}

const lastOf = (values, show) => {
  const known = values.filter((value) => value !== null);
  return known.length ? show(known.at(-1)) : "none";
};

function axes(box, top, show, points, x, y, long) {
  const words = { fill: "currentColor", "font-size": 11, opacity: 0.75 };
  // A half that reads as the whole does would be a wrong label.
  const parts = show(top * 0.5) === show(top) ? [0, 1] : [0, 0.5, 1];
  const made = parts.flatMap((part) => [
    shape("text", { ...words, x: box.left - 5, y: tenth(y(top * part) + 4), "text-anchor": "end" }, show(top * part)),
    shape("line", { class: "base", x1: box.left, x2: box.wide, y1: tenth(y(top * part)), y2: tenth(y(top * part)), opacity: 0.5 }),
  ]);
  const every = Math.max(1, Math.ceil(points.length / (long ? 3 : 6)));
  points.forEach((point, at) => {
    if (at % every || x(at) > box.wide - (long ? 90 : 34)) return; // what would be cut at the edge is left out
    made.push(shape("text", { ...words, x: tenth(x(at)), y: box.high - 4 }, clock(point.at, long)));
  });
  return made;
}

function bars(one, values, feet, x, y, wide, plotHigh) {
  return values.flatMap((value, at) => {
    if (!value) return [];
    const high = Math.max(2, plotHigh - 1 - y(value));
    feet[at] += high;
    const place = { x: tenth(x(at)), y: tenth(plotHigh - 1 - feet[at]), width: tenth(Math.max(0.5, wide * 0.85)), height: tenth(high) };
    return [shape("rect", { class: one.kind === "bad" ? "bar bad" : "bar", ...place })];
  });
}

// A curve for each run of points that have a value, the first of a chart over a shade down to the ground; one alone is a dot.
function lines(one, values, x, y, ground) {
  const runs = [];
  values.forEach((value, at) => {
    if (value === null) return;
    if (at === 0 || values[at - 1] === null) runs.push([]);
    runs.at(-1).push([tenth(x(at)), tenth(y(value))]);
  });
  const corners = (run) => run.map((corner) => corner.join(",")).join(" ");
  return runs.flatMap((run) => {
    const [[left, high], [right]] = [run[0], run.at(-1)];
    if (run.length === 1) return shape("line", { class: "dot", x1: left, x2: left, y1: high, y2: high });
    const line = shape("polyline", { class: one.kind === "second" ? "line second" : "line", points: corners(run) });
    if (one.kind === "second") return line;
    return [shape("polygon", { class: "fill", points: `${left},${ground} ${corners(run)} ${right},${ground}` }), line];
  });
}

// What happened meanwhile: a line down the chart, which says what it was and leads there.
const MARKS = { deploy: "4 2", breaker: "1 2", incident: "" };
function marks(item, box, plotHigh) {
  const since = new Date(item.since).getTime();
  const long = new Date(item.until).getTime() - since;
  return item.marks.map((mark) => {
    const at = tenth(box.left + ((new Date(mark.at).getTime() - since) / long) * (box.wide - box.left));
    const line = { class: `mark ${mark.sort}`, x1: at, x2: at, y1: 0, y2: plotHigh, stroke: "currentColor", opacity: 0.6, "stroke-dasharray": MARKS[mark.sort] || "none", "vector-effect": "non-scaling-stroke" };
    const words = `${clock(mark.at, true)}: ${mark.words}`;
    return shape("a", { href: mark.href, "aria-label": words }, shape("title", {}, words), shape("line", line));
  });
}
