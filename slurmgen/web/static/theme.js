// Light or dark: as the system says, until the user switches. It runs before the first paint.
"use strict";
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme").addEventListener("click", () => {
    const shown = document.documentElement.dataset.theme
      || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = shown === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
    dispatchEvent(new Event("themechange"));
  });
});
