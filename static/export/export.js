// Export what is on show: one map or the whole figure as a picture, the numbers, the bundle, the lines that make it
// again.

import { explanationPath, getJSON, mapPath } from "../core/api.js";
import { addressOf, count, el } from "../core/dom.js";
import { menu } from "../core/menu.js";
import { aboutOne } from "../core/targets.js";
import { save } from "./saving.js";
import { methodsInName, nameOf } from "./titles.js";

/**
 * @import { Store } from "../core/state.js"
 * @import { DeletionAnswer, Variant, View } from "../core/types.js"
 * @import { MapPlate } from "../maps/types.js"
 */

/**
 * Save plates as one picture in `format` ("svg" or "png"), as they are drawn now.
 * @param {MapPlate[]} plates
 * @param {string} format
 * @param {View} view
 * @param {string | null} id
 * @param {number} columns
 */
async function savePicture(plates, format, view, id, columns) {
  const { figure } = await import("./drawing.js");
  // two models make two explanations
  const ids = new Set([id, ...plates.map((plate) => plate.actions.id)].flatMap((one) => one ?? []));
  const stored = await Promise.all([...ids].map((explanationId) => getJSON(explanationPath(explanationId))));
  const label = plates.length === 1 ? plates[0].map?.target : null;
  const explanations = stored.map((explanation) => aboutOne(explanation, label));
  const name = nameOf(explanations, methodsInName(plates.map(({ variant }) => variant.title)));
  return saveDrawn(await figure({ plates, view, columns, explanations }), format, name);
}

/**
 * Save the curves of the deletion test as a picture.
 * @param {{id: string, answer: DeletionAnswer, names: Map<string, string>}} shown
 * @param {string} format
 */
async function saveCurves({ id, ...curves }, format) {
  const { curveFigure } = await import("./curvefigure.js");
  const explanation = aboutOne(await getJSON(explanationPath(id)), curves.answer.target);
  return saveDrawn(await curveFigure({ ...curves, explanation }), format, nameOf([explanation], "curves"));
}

/**
 * Save a figure as a picture in `format`.
 * @param {{svg: string, width: number, height: number}} drawn
 * @param {string} format
 * @param {string} name
 */
export async function saveDrawn(drawn, format, name) {
  const { raster } = await import("./sheet.js");
  save(format === "svg" ? new Blob([drawn.svg], { type: "image/svg+xml" }) : await raster(drawn), `${name}.${format}`);
}

/**
 * The links to the boxes and the mask of the regions that labels win by the maps of `spec`; `none` is the threshold in
 * percent.
 * @param {string} id
 * @param {string} spec
 * @param {number} none
 * @returns {{text: string, href: string, download: string}[]}
 */
export function regionLinks(id, spec, none) {
  const query = `method=${encodeURIComponent(spec)}&threshold=${none / 100}`;
  return [
    { text: "Regions: boxes (JSON)", href: `${explanationPath(id)}/regions?${query}`, download: "" },
    { text: "Regions: mask (PNG)", href: `${explanationPath(id)}/regions.png?${query}`, download: "" },
  ];
}

/**
 * The menu of one plate.
 * @param {MapPlate} plate
 * @returns {HTMLDetailsElement}
 */
export function mapMenu(plate) {
  const { variant } = plate;
  /** @param {string} format */
  const draw = (format) => () => savePicture([plate], format, plate.look, plate.actions.id, 1);
  return menu("export", `${variant.title}: export`, () => {
    const { id } = plate.actions;
    if (!plate.map || !id) return [];
    return [
      { text: "PNG, as drawn", run: draw("png") },
      { text: "SVG, as drawn", run: draw("svg") },
      { text: ".npy, the numbers", href: mapPath(id, plate.map.method, plate.map.target, "npy") },
      { text: "JSON, everything", href: explanationPath(id) },
    ];
  });
}

/**
 * Show lines that the browser does not let us copy, selected, so that a person can.
 * @param {string} title
 * @param {string} text
 */
function show(title, text) {
  const field = el("textarea", { readOnly: true, rows: 14, value: text, "aria-label": title, spellcheck: false });
  const dialog = el(
    "dialog",
    { class: "lines", "aria-label": title },
    el("p", {}, "The browser does not let this page copy. The lines are selected: press Ctrl + C."),
    field,
  );
  dialog.append(el("form", { method: "dialog" }, el("button", { class: "act" }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  field.select();
}

/** True where this server lets other pages show its explanations. */
const embeds = document.querySelector("meta[name=vitrine]")?.getAttribute("data-embed") === "yes";

/**
 * The lines that show the maps on show inside another page, as they are looked at now.
 * @param {{id: string | null, specs: string[]}} workbench
 */
function embedCode({ id, specs }) {
  const query = new URLSearchParams(location.search);
  for (const name of [...query.keys()])
    if (!["grid", "level", "scale", "opacity", "sequence", "diverging", "evidence", "grain"].includes(name))
      query.delete(name);
  for (const spec of specs) query.append("methods", spec);
  const frame = el("iframe", {
    src: location.origin + addressOf(`/embed/${id}?${query}`),
    width: "100%",
    height: "640",
    title: document.title,
    loading: "lazy",
  });
  return frame.outerHTML;
}

/**
 * The menu of the whole figure, and a line that says what was done.
 * @param {{id: string | null, specs: string[],
 *   plateSet: {root: HTMLElement, everyPlate: MapPlate[], variants: Variant[]},
 *   view: Store<View>, deletionBar: any,
 *   page: {exports?: () => {text: string, href: string, download: string}[]}}} workbench
 * @returns {HTMLElement[]}
 */
export function figureMenu(workbench) {
  const statusLine = el("span", { class: "quiet", role: "status" });
  /**
   * @param {() => Promise<void>} run
   * @param {string} [done]
   */
  const tell =
    (run, done = "") =>
    async () => {
      statusLine.textContent = "";
      try {
        await run();
        statusLine.textContent = done;
      } catch (problem) {
        statusLine.textContent = problem.detail ?? String(problem);
      }
    };
  /**
   * @param {string} text
   * @param {string} title
   */
  const copy = async (text, title) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      show(title, text);
    }
  };
  const plates = () => {
    /** @type {Map<Element, MapPlate>} */
    const known = new Map(workbench.plateSet.everyPlate.map((plate) => [plate.node, plate]));
    return [...workbench.plateSet.root.querySelectorAll(".plate")]
      .flatMap((node) => known.get(node) ?? [])
      .filter((plate) => plate.map && plate.node.checkVisibility());
  };
  const columns = () =>
    workbench.plateSet.root.querySelector(".matrix .line:not(.head)")?.querySelectorAll(".plate").length ?? 0;
  /** @param {string} format */
  const draw = (format) =>
    tell(() => savePicture(plates(), format, workbench.view.value, workbench.id, columns()), "saved");
  const curves = () => workbench.deletionBar.view?.curves;
  /** @param {string} format */
  const curvesAs = (format) => ({
    text: `${format.toUpperCase()} of the deletion curves`,
    run: tell(() => saveCurves(curves(), format), "saved"),
  });
  const curvesAsCsv = () => ({
    text: "CSV of the deletion curves",
    run: tell(async () => {
      const { curveRows, saveCsv } = await import("./csv.js");
      const { id, answer } = curves();
      const explanation = aboutOne(await getJSON(explanationPath(id)), answer.target);
      saveCsv(curveRows(answer), nameOf([explanation], "curves"));
    }, "saved"),
  });
  /**
   * @param {string} kind
   * @param {string} title
   */
  const code = (kind, title) =>
    tell(async () => copy((await getJSON(`${explanationPath(String(workbench.id))}/code`))[kind], title), "copied");
  /** @returns {string} the name of the figure, for what it holds: folded methods and missing maps are left out */
  const figureName = () => {
    const methods = new Set(plates().map(({ variant }) => variant.spec)).size;
    return methods < workbench.plateSet.variants.length
      ? `the ${count(methods, "method")} on show`
      : "the whole figure";
  };
  const node = menu("Export", "Export the figure", () =>
    !workbench.id || !plates().length
      ? []
      : [
          { text: `PNG of ${figureName()}`, run: draw("png") },
          { text: `SVG of ${figureName()}`, run: draw("svg") },
          ...(curves() ? [...["png", "svg"].map(curvesAs), curvesAsCsv()] : []),
          ...(workbench.page.exports?.() ?? []),
          { text: "Bundle (zip): input, numbers, pictures", href: `${explanationPath(workbench.id)}/bundle.zip` },
          { text: "JSON, everything", href: explanationPath(workbench.id) },
          { text: "Copy as Python", run: code("python", "Python lines") },
          { text: "Copy as curl", run: code("curl", "curl lines") },
          ...(embeds
            ? [
                {
                  text: "Copy the code to embed it",
                  run: tell(() => copy(embedCode(workbench), "Code to embed it"), "copied"),
                },
              ]
            : []),
          { text: "Copy the link", run: tell(() => copy(location.href, "Link"), "copied") },
        ],
  );
  return [statusLine, node];
}
