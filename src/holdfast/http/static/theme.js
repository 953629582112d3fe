// Light or dark: as the system says, unless a person chose. Loaded before anything is drawn.
const chosen = () => localStorage.getItem("holdfast.theme");
const isDark = () => (chosen() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
if (chosen()) document.documentElement.dataset.theme = chosen();
addEventListener("DOMContentLoaded", () => {
  const button = document.querySelector("#theme");
  button?.addEventListener("click", () => {
    localStorage.setItem("holdfast.theme", isDark() ? "light" : "dark");
    document.documentElement.dataset.theme = chosen();
  });
});
