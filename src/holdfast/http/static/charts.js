// Small charts, drawn as SVG from numbers. One point is a dot, none is a line on the ground; both say so in words.
import { el } from "./holdfast.js";

const NS = "http://www.w3.org/2000/svg";
const WIDE = 300;
const HIGH = 56;
const SEEN = 5;

export function shape(tag, attributes, ...children) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function canvas(label, high = HIGH, kind = "plot") {
  const box = {
    class: kind,
    viewBox: `0 0 ${WIDE} ${high}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": label,
  };
  return shape("svg", box);
}

const at = (time) => new Date(time).getTime();
const tenth = (number) => number.toFixed(1);
const ground = () => shape("line", { class: "base", x1: 0, x2: WIDE, y1: HIGH - 1, y2: HIGH - 1 });

function scales(points, span, top) {
  const from = at(span.since);
  const long = Math.max(1, at(span.now) - from);
  return {
    x: (point) => Math.min(WIDE - 4, Math.max(4, ((at(point.at) - from) / long) * WIDE)),
    y: (value) => HIGH - 3 - (value / top) * (HIGH - 8),
  };
}

function framed(title, now, most, svg, strip) {
  const foot = el("div", { class: "foot" }, el("span", {}, "an hour ago"), el("span", {}, most), el("span", {}, "now"));
  return el(
    "figure",
    { class: "chart", key: title },
    el("figcaption", {}, el("span", {}, title), el("strong", {}, now)),
    svg,
    strip,
    foot,
  );
}

// Lines over the last hour. `lines` are lists of {at, value}; the first is the one that is spoken of.
export function lineChart(title, span, lines, show) {
  const first = lines[0];
  const top = Math.max(1e-9, ...lines.flat().map((point) => point.value));
  const last = first.at(-1);
  const now = last ? show(last.value) : "no calls";
  const most = first.length ? `most ${show(Math.max(...first.map((point) => point.value)))}` : "nothing yet";
  const svg = canvas(`${title}: ${now}, ${most} in the last hour`);
  const { x, y } = scales(first, span, top);
  svg.append(ground());
  lines.forEach((points, number) => {
    if (points.length > 1) svg.append(...curve(points, x, y, number > 0));
  });
  if (last) {
    const [cx, cy] = [tenth(x(last)), tenth(y(last.value))];
    svg.append(shape("line", { class: "dot", x1: cx, x2: cx, y1: cy, y2: cy }));
  }
  return framed(title, now, most, svg);
}

function curve(points, x, y, isSecond) {
  const corners = points.map((point) => `${tenth(x(point))},${tenth(y(point.value))}`).join(" ");
  const line = shape("polyline", { class: isSecond ? "line second" : "line", points: corners });
  if (isSecond) return [line];
  const ends = [`${tenth(x(points[0]))},${HIGH}`, `${tenth(x(points.at(-1)))},${HIGH}`];
  return [shape("polygon", { class: "fill", points: `${ends[0]} ${corners} ${ends[1]}` }), line];
}

// A bar for each minute; the part that went wrong stands on top of what went right.
export function barChart(title, minutes, good, bad, now) {
  const sums = minutes.map((one) => one[good] + one[bad]);
  const top = Math.max(1, ...sums);
  const svg = canvas(`${title}: ${now}; most ${top} in a minute of the last hour`);
  const wide = WIDE / Math.max(1, minutes.length);
  svg.append(ground());
  minutes.forEach((one, number) => {
    let foot = HIGH - 1;
    for (const [name, kind] of [
      [good, "bar"],
      [bad, "bar bad"],
    ]) {
      if (!one[name]) continue;
      const high = Math.max(2, (one[name] / top) * (HIGH - 6));
      foot -= high;
      svg.append(
        shape("rect", {
          class: kind,
          x: tenth(number * wide),
          y: tenth(foot),
          width: tenth(wide * 0.85),
          height: tenth(high),
        }),
      );
    }
  });
  return framed(title, now, sums.some(Boolean) ? `most ${top} a minute` : "nothing yet", svg);
}

// The gate of a breaker over the last hour, under the latency of its provider.
export function providerChart(one, span, show) {
  const p95 = one.latencies.map((minute) => ({ at: minute.at, value: minute.p95_ms }));
  const p50 = one.latencies.map((minute) => ({ at: minute.at, value: minute.p50_ms }));
  const made = lineChart(`${one.name}, P95`, span, [p95, p50], show);
  made.querySelector("svg").after(strip(one, span));
  return made;
}

function strip(one, span) {
  const svg = canvas(`Breaker of ${one.name}: ${one.gate}`, 12, "strip");
  const from = at(span.since);
  const long = Math.max(1, at(span.now) - from);
  const known = [{ at: span.since, gate: one.gates.length ? before(one, span) : one.gate }, ...one.gates];
  known.forEach((change, number) => {
    const begin = Math.max(0, ((at(change.at) - from) / long) * WIDE);
    const end = number + 1 < known.length ? Math.max(0, ((at(known[number + 1].at) - from) / long) * WIDE) : WIDE;
    if (end <= begin) return;
    const wide = change.gate === "closed" ? end - begin : Math.max(end - begin, SEEN); // a minute of trouble is seen
    const box = { class: `gate-${change.gate}`, x: tenth(end - wide), y: 0, width: tenth(wide), height: 12 };
    const words = `${change.gate} from ${new Date(change.at).toLocaleTimeString()}${change.reason ? `: ${change.reason}` : ""}`;
    svg.append(shape("rect", box, shape("title", {}, words)));
  });
  return svg;
}

const before = (one, span) => (one.gates[0].at === span.since ? one.gates[0].gate : "closed");
