// Loaded before anything is painted: no flash of the other theme. "auto" follows the system.
(() => {
  const KEY = "tidelog-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try {
      return localStorage.getItem(KEY) || "auto";
    } catch {
      return "auto"; // storage may be forbidden
    }
  };
  let chosen = stored();
  const apply = () => {
    const theme = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
    document.documentElement.dataset.theme = theme;
  };
  apply();
  dark.addEventListener("change", apply);
  addEventListener("DOMContentLoaded", () => {
    for (const input of document.querySelectorAll('input[name="theme"]')) {
      input.checked = input.value === chosen;
      input.addEventListener("change", () => {
        chosen = input.value;
        try {
          localStorage.setItem(KEY, chosen);
        } catch {
          // then it holds for this visit
        }
        apply();
      });
    }
  });
})();
