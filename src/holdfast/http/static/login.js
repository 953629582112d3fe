// Takes a token from the printed link or from the form, and keeps it for this tab.
import { api } from "/static/holdfast.js";

const given = location.hash.slice(1).replace(/^token=/, "");
const form = document.querySelector("form");
const said = document.querySelector("#said-here");

async function enter(token) {
  history.replaceState(null, "", `/login${location.search}`); // the token stays out of the address and the history
  sessionStorage.setItem("holdfast.token", token);
  try {
    await api("/api/session", { method: "POST" });
    location.replace(new URLSearchParams(location.search).get("next") === "console" ? "/console" : "/");
  } catch (error) {
    sessionStorage.removeItem("holdfast.token");
    said.textContent = error.message;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  enter(form.token.value.trim());
});
if (given) enter(given);
