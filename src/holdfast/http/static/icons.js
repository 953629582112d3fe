// The signs of the views, drawn with lines as thick as the letters beside them.
const PATHS = {
  overview: "M2 9.5 8 4l6 5.5M4 8.5V14h8V8.5",
  incidents: "M8 2 15 14H1zM8 6.5v3.5M8 12v.5",
  time: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8M8 4.5V8l2.5 1.8",
  jobs: "M2 3.5h12M2 8h12M2 12.5h12",
  dead: "M2 3.5h12v9H2zM2 4l6 5 6-5",
  breakers: "M1.5 8H6l3.5-4.5M10 8h4.5",
  outbox: "M2 9v4.5h12V9M8 10V2M5 5l3-3 3 3",
  machines: "M2 3h12v4.5H2zM2 9.5h12V14H2zM4.5 5.2h.5M4.5 11.7h.5",
  audit: "M4 1.8h6l3 3v9.4H4zM6.5 7h4M6.5 10h4",
  other: "M3 3h10v10H3z",
};

// A tab that a system brings has a path of its own.
export function icon(name, own) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  for (const [key, value] of Object.entries({ class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" })) svg.setAttribute(key, value);
  path.setAttribute("d", own ?? PATHS[name] ?? PATHS.other);
  svg.append(path);
  return svg;
}
