// The API page can send: a form for each operation, made of the description when it is opened, with the token of this tab.
import { api, at, el, token, who } from "./holdfast.js";

let described = null;
const deref = (schema) => (schema?.$ref ? described.components.schemas[schema.$ref.split("/").at(-1)] : (schema ?? {}));

// A body that fits a schema, as far as a schema can say: required fields, and those that have a default.
function example(given, depth = 0) {
  const schema = deref(given);
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (schema.const !== undefined) return schema.const;
  const some = (schema.anyOf ?? schema.oneOf)?.find((each) => each.type !== "null");
  if (some) return example(some, depth + 1);
  if (schema.type === "array") return [];
  if (schema.type === "object" || schema.properties) {
    const names = depth > 3 ? [] : (schema.required ?? []);
    return Object.fromEntries(names.map((name) => [name, example(schema.properties?.[name], depth + 1)]));
  }
  return { string: "", integer: 1, number: 1, boolean: false }[schema.type] ?? null;
}

function open(box) {
  const [method, path] = box.dataset.operation.split(" ");
  const operation = described.paths[path][method];
  const parameters = operation.parameters ?? [];
  const json = operation.requestBody?.content?.["application/json"];
  const out = el("pre", { tabindex: "0", "aria-live": "polite", hidden: true });
  const id = (name) => `${method}-${path}-${name}`.replace(/\W+/g, "-");
  const fields = parameters.map(({ name, in: place, required, schema }) =>
    el("div", {}, el("label", { for: id(name) }, `${name} (${place}${required ? ", required" : ""})`), el("input", { id: id(name), name, type: "text", required, value: String(schema?.default ?? "") })),
  );
  const body = json && el("div", {}, el("label", { for: id("body") }, "Body (JSON)"), el("textarea", { id: id("body"), name: "body" }, JSON.stringify(example(json.schema), null, 2)));
  const send = async (event) => {
    event.preventDefault();
    const form = event.target.elements;
    const named = (place) => parameters.filter((each) => each.in === place && form[each.name].value !== "");
    let target = path;
    for (const { name } of named("path")) target = target.replace(`{${name}}`, encodeURIComponent(form[name].value));
    const query = new URLSearchParams(named("query").map(({ name }) => [name, form[name].value]));
    const headers = Object.fromEntries(named("header").map(({ name }) => [name, form[name].value]));
    out.hidden = false;
    out.textContent = "Sending…";
    try {
      const given = body ? JSON.parse(form.body.value) : undefined;
      const answer = await api(`${target}${query.size ? `?${query}` : ""}`, { method: method.toUpperCase(), body: given, headers });
      out.textContent = typeof answer === "string" ? answer || "Done, without an answer." : JSON.stringify(answer, null, 2);
    } catch (error) {
      out.textContent = error.status ? `${error.status}: ${error.message}` : error.message;
    }
  };
  const signedIn = token() ? null : el("p", { class: "soft small" }, "You are not signed in: only what everybody may ask is answered. ", el("a", { href: at("/login?next=docs") }, "Sign in"));
  box.append(el("form", { onsubmit: send, role: "search" }, signedIn, fields, body, el("button", { class: method === "get" ? null : "danger" }, `Send ${method.toUpperCase()}`), out));
}

addEventListener(
  "toggle",
  async ({ target }) => {
    if (!target.open || !target.dataset?.operation || target.querySelector("form")) return;
    described ??= await api("/openapi.json");
    open(target);
  },
  true,
);
document.querySelector("#who").textContent = who()?.sub ?? "";
