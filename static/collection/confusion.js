// The confusion matrix of the rows on show: a press on a count shows its rows alone.

import { count, el } from "../core/dom.js";

/**
 * @import { Confusion } from "../core/schemas.js"
 * @import { Filters } from "./types.js"
 */

const OTHERS = "other classes";

/**
 * Make the matrix. Shades are relative to the largest count of the right, and of the wrong answers.
 * @param {Confusion} confusion
 * @param {Filters} filters
 * @param {(label: string | null, answer: string | null) => void} onPress
 * @returns {HTMLElement}
 */
export function confusionMatrix({ labels, answers, counts }, filters, onPress) {
  const flat = counts.flatMap((row, i) => row.map((value, j) => ({ value, isRight: i === j })));
  const most = (/** @type {boolean} */ right) =>
    Math.max(1, ...flat.filter(({ isRight }) => isRight === right).map(({ value }) => value));
  const largest = { right: most(true), wrong: most(false) };
  const head = el(
    "tr",
    {},
    el("td", { class: "corner" }, "label ↓", el("br"), "answer →"),
    ...answers.map((name) => el("th", { scope: "col" }, el("span", { title: name }, name))),
  );
  const rows = labels.map((label, i) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", title: label }, el("span", {}, label)),
      ...answers.map((answer, j) => {
        const value = counts[i][j];
        const isRight = i === j;
        const isOn = filters.label === label && filters.answer === answer;
        const says = `${count(value, "row")} with the label ${label} answered ${answer}`;
        const button = el(
          "button",
          {
            type: "button",
            title: says,
            "aria-label": says,
            "aria-pressed": String(isOn),
            disabled: !value || label === OTHERS || answer === OTHERS,
            on: { click: () => (isOn ? onPress(null, null) : onPress(label, answer)) },
          },
          value ? String(value) : "·",
        );
        const cell = el("td", { class: `${isRight ? "right" : "wrong"}${value ? "" : " none"}` }, button);
        cell.style.setProperty("--share", String(Math.sqrt(value / (isRight ? largest.right : largest.wrong))));
        return cell;
      }),
    ),
  );
  const table = el("table", { class: "confusion" }, el("thead", {}, head), el("tbody", {}, rows));
  table.style.setProperty("--classes", String(answers.length));
  return table;
}
