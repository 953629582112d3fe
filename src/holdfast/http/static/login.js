import { api } from "/static/holdfast.js";
const given = location.hash.slice(1).replace(/^token=/, "");
const form = document.querySelector("form");
const said = document.querySelector("#said");
async function enter(token) {
  sessionStorage.setItem("holdfast.token", token);
  try {
    await api("/api/session", { method: "POST" });
    history.replaceState(null, "", "/login");
    location.href = new URLSearchParams(location.search).get("next") === "console" ? "/console" : "/";
  } catch (error) {
    sessionStorage.removeItem("holdfast.token");
    said.textContent = error.message;
  }
}
form.addEventListener("submit", (event) => { event.preventDefault(); enter(form.token.value.trim()); });
if (given) enter(given);
