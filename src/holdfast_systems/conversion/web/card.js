// Trying conversion on the front page: a PDF, followed to its XML.
import { api, clock, el, follow } from "../holdfast.js";
import { accepted, tryOut } from "../try.js";

const EVENTS = ["queued", "processing", "progress", "retry", "complete", "failed", "cancelled", "expired"];
const ENDS = ["complete", "failed", "cancelled", "expired"];

tryOut("conversion", {
  async start(fields) {
    const form = new FormData();
    form.append("file", fields.pdf.files[0]);
    return { id: (await api("/api/jobs", { method: "POST", form })).id };
  },
  async follow({ id }, out) {
    out.say(accepted(id, `jobs?q=${id}`));
    await new Promise((ended, failed) => {
      follow(`/api/jobs/${id}/events`, EVENTS, async (name, data, close) => {
        if (!ENDS.includes(name)) {
          out.say(data.retryAfter ? `failed for now; again at ${clock(data.retryAfter)}` : (data.status ?? name));
          return;
        }
        close();
        try {
          await show(id, out);
          ended();
        } catch (error) {
          failed(error);
        }
      });
    });
  },
});

async function show(id, out) {
  const now = await api(`/api/jobs/${id}`);
  if (now.status !== "complete") {
    out.say(now.error ? now.error.message : now.status, "error");
    return;
  }
  out.say("converted", "good");
  const text = String(await api(`/api/jobs/${id}/result`));
  const href = URL.createObjectURL(new Blob([text], { type: "application/xml" }));
  out.show(
    el(
      "div",
      { class: "result" },
      el(
        "div",
        { class: "head" },
        el("strong", {}, `${text.length.toLocaleString()} characters of XML`),
        el("a", { class: "end", href, download: `${id}.xml` }, "Download the XML"),
      ),
      el("div", { class: "document", tabindex: "0", role: "region", "aria-label": "The document" }, rendered(text)),
      el("details", {}, el("summary", {}, "The whole XML"), el("pre", { tabindex: "0" }, text)),
    ),
  );
}

// The document as a reader sees it: headings, paragraphs, lists and tables of its XML, and nothing else of it.
const TAGS = { head: "h4", title: "h3", p: "p", item: "li", list: "ul", row: "tr", cell: "td", table: "table", figure: "p" };
const WHOLE = new Set(["head", "p", "item", "cell", "title"]);
const SILENT = new Set(["teiHeader", "graphic"]);
function rendered(text) {
  const xml = new DOMParser().parseFromString(text, "application/xml");
  if (xml.querySelector("parsererror")) return [el("pre", {}, text)];
  const walk = (node) =>
    [...node.children].flatMap((child) => {
      if (SILENT.has(child.localName)) return [];
      const tag = TAGS[child.localName];
      const inner = WHOLE.has(child.localName) && !child.querySelector("list, table, p") ? [child.textContent] : walk(child);
      return tag && inner.length ? [el(tag, {}, ...inner)] : inner;
    });
  return walk(xml.documentElement);
}
