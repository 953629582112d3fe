// What every page shares: the token, the API, live streams, and building elements without ever parsing HTML.
export const token = () => sessionStorage.getItem("holdfast.token");

export class Problem extends Error {
  constructor(body, status) { super(body.detail || body.title || `HTTP ${status}`); this.code = body.code; this.status = status; }
}

export async function api(path, { method = "GET", body, form, headers = {} } = {}) {
  const sent = { ...headers };
  if (token()) sent.Authorization = `Bearer ${token()}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers: sent, body: form ?? (body === undefined ? undefined : JSON.stringify(body)) });
  const text = await answer.text();
  const json = text && (answer.headers.get("content-type") || "").includes("json") ? JSON.parse(text) : null;
  if (!answer.ok) throw new Problem(json || {}, answer.status);
  return json ?? text;
}

// Follow a stream until the listener closes it. A lost connection is opened anew where it broke off: a ticket is good once.
export async function follow(path, names, heard) {
  let stream = null, last = "", over = false;
  const close = () => { over = true; stream?.close(); };
  const open = async () => {
    if (over) return;
    try {
      const { ticket } = await api("/api/tickets", { method: "POST" });
      stream = new EventSource(`${path}?ticket=${encodeURIComponent(ticket)}&lastEventId=${encodeURIComponent(last)}`);
      for (const name of names) {
        stream.addEventListener(name, (event) => { last = event.lastEventId || last; heard(name, JSON.parse(event.data || "{}"), close); });
      }
      stream.onerror = () => { stream.close(); setTimeout(open, 1500); };
    } catch { setTimeout(open, 3000); }
  };
  await open();
  return { close };
}

export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((one) => one !== null && one !== undefined));
  return made;
}

export function clock(value) {
  const date = typeof value === "number" ? new Date(value) : new Date(String(value));
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString();
}

export function chart(points, label) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("class", "chart"); svg.setAttribute("viewBox", "0 0 300 60"); svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img"); svg.setAttribute("aria-label", `${label}: ${points.at(-1) ?? 0}`);
  const top = Math.max(1, ...points);
  const line = document.createElementNS(ns, "polyline");
  const step = 300 / Math.max(1, points.length - 1);
  line.setAttribute("points", points.map((y, i) => `${(i * step).toFixed(1)},${(56 - (y / top) * 50).toFixed(1)}`).join(" "));
  svg.append(line);
  return svg;
}

export const uuid = () => crypto.randomUUID ? crypto.randomUUID()
  : "10000000-1000-4000-8000-100000000000".replace(/[018]/g, (c) => (+c ^ (crypto.getRandomValues(new Uint8Array(1))[0] & (15 >> (+c / 4)))).toString(16));
