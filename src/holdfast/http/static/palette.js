// The palette: one field for every place. Ctrl+K or Cmd+K; arrows choose, Enter goes, Escape leaves.
import { el, morph } from "./holdfast.js";

const QUERIES = [
  ["Jobs that are held", "state:held"],
  ["Jobs that died today", "state:dead since:1d"],
  ["Jobs that wait for more than ten minutes", "state:queued age:>10m"],
  ["Jobs that run", "state:running"],
  ["Jobs that wait for an answer", "state:waiting"],
];
const SHOWN_MAX = 9;

const toJobs = (query) => `jobs?${new URLSearchParams({ q: query })}`;

// What fits the words, the best first; whatever was typed may be looked for among the jobs.
export function placesFor(words, tabs) {
  const wanted = words.trim().toLowerCase();
  const places = [
    ...tabs.map(([key, title, letter]) => ({ title, hint: `g ${letter}`, hash: key })),
    ...QUERIES.map(([title, query]) => ({ title, hint: query, hash: toJobs(query) })),
  ];
  const fits = places.filter(({ title, hint }) => `${title} ${hint}`.toLowerCase().includes(wanted));
  const look = wanted ? [{ title: `Find jobs: ${words.trim()}`, hint: "any id, or a query", hash: toJobs(words.trim()) }] : [];
  return [...fits, ...look].slice(0, SHOWN_MAX);
}

export function openPalette(tabs) {
  if (document.querySelector("dialog[open]")) return;
  let at = 0;
  let places = [];
  const list = el("ul", { id: "palette-list", role: "listbox", "aria-label": "Places" });
  const input = el("input", {
    type: "text",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-label": "Go to",
    placeholder: "A view, a query, any id",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => draw(0),
  });
  const box = el("dialog", { class: "palette", "aria-label": "Palette" }, input, list);
  const go = (place) => {
    box.close();
    if (place) location.hash = place.hash;
  };
  function draw(next) {
    places = placesFor(input.value, tabs);
    at = Math.max(0, Math.min(next, places.length - 1));
    const line = (place, number) =>
      el(
        "li",
        { id: `palette-${number}`, role: "option", "aria-selected": String(number === at), onclick: () => go(place) },
        el("span", {}, place.title),
        el("code", {}, place.hint),
      );
    morph(list, el("ul", { id: "palette-list", role: "listbox", "aria-label": "Places" }, places.map(line)));
    input.setAttribute("aria-activedescendant", `palette-${at}`);
  }
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") draw(at + 1);
    else if (event.key === "ArrowUp") draw(at - 1);
    else if (event.key === "Enter") go(places[at]);
    else return;
    event.preventDefault();
  });
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  draw(0);
}
