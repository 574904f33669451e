// Light, dark, or as the system has it. A classic script at the head, so that no page is ever drawn in the other scheme
// first.
(() => {
  const KEY = "vitrine-scheme";
  const root = document.documentElement;
  const read = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // nothing can be kept here: as the system has it
    }
  };
  /** @param {string} scheme */
  const keep = (scheme) => {
    try {
      localStorage.setItem(KEY, scheme);
    } catch {
      // it holds for this page alone
    }
  };
  /** @param {string | null | string} scheme */
  const show = (scheme) => {
    const isFixed = scheme === "light" || scheme === "dark";
    if (isFixed) root.dataset.scheme = scheme;
    else delete root.dataset.scheme;
    document.querySelector("meta[name=color-scheme]")?.setAttribute("content", isFixed ? scheme : "light dark");
  };
  show(read());
  document.addEventListener("DOMContentLoaded", () => {
    const select = /** @type {HTMLSelectElement | null} */ (document.getElementById("scheme"));
    if (!select) return; // a page without a head
    const mark = () => (select.value = root.dataset.scheme ?? "system");
    mark();
    select.hidden = false;
    const tell = () => dispatchEvent(new Event("scheme")); // who paints with the colours of the page paints again
    select.addEventListener("change", () => {
      keep(select.value);
      show(select.value);
      tell();
    });
    addEventListener("storage", (event) => {
      if (event.key !== KEY) return;
      show(event.newValue);
      mark();
      tell();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  });
})();
