// What the systems that run here bring to the console. Each is a module that may export `tabs` ([key, title, letter] and an icon's path),
// `views` by key, `belongs` (the tab of a view that has none) and `asks`, which gives lines that ask for a person.
import { api } from "./holdfast.js";
import { at } from "./root.js";
import { allow } from "./session.js";

let brought = [];

export async function load() {
  const { acts, modules } = await api("/api/session");
  allow(acts);
  brought = await Promise.all(modules.map((path) => import(at(`/${path}`))));
}
export const tabs = () => brought.flatMap((system) => system.tabs ?? []);
export const views = () => Object.assign({}, ...brought.map((system) => system.views ?? {}));
export const belongs = () => Object.assign({}, ...brought.map((system) => system.belongs ?? {}));

// A system that cannot say what it asks for is shown as such by its own views.
export const asks = async () =>
  (await Promise.all(brought.map((system) => system.asks?.().catch(() => []) ?? []))).flat();
