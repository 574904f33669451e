// The words of an answer by the words of its prompt as a picture: a heat table with its numbers.

import { colourAt } from "../core/colour.js";
import { cellsOf } from "../maps/scoretable.js";
import { loadFonts, MONO, SERIF } from "./typefaces.js";
import { line, round, SOFT, tag, widthOf } from "./lettering.js";
import { GAP, heading, MARGIN, sheet } from "./sheet.js";

/**
 * @import { AnswerTable } from "../core/schemas.js"
 * @import { Explanation } from "../core/types.js"
 */

const CELL = { width: 50, height: 28 };
const FULL_SCORE_OPACITY = 0.48; // as behind a word
const LEAST = 640; // units wide: the lines over it need them
const WORD = { size: 15, family: SERIF };

/**
 * The table as the page draws it, each row in colours up to its own largest score: {svg, width, height}.
 * @param {{table: AnswerTable, explanation: Explanation}} options
 * @returns {Promise<{svg: string, width: number, height: number}>}
 */
export async function tableFigure({ table, explanation }) {
  const { rows, columns, logits, scores, signed, title, answer } = table;
  await loadFonts();
  /** @param {string} word */
  const long = (word) => widthOf(word, `15px ${SERIF}`);
  const left = Math.max(...rows.map(long)) + 14;
  const top = Math.max(...columns.map(long)) + 12;
  const width = Math.max(LEAST, 2 * MARGIN + left + columns.length * CELL.width);
  const whole = {
    ...explanation.targets[0],
    label: answer.trim(),
    logit: logits.reduce((sum, logit) => sum + logit, 0),
  };
  delete whole.probability; // which is that of one token
  const above = heading(
    [{ ...explanation, targets: [whole] }],
    `${title}, each row in colours up to its own largest score`,
    width,
    "Each word of the answer by the words of the prompt.",
  );
  const heads = columns.map((word, k) =>
    line(0, 0, word, {
      ...WORD,
      transform: `translate(${round(left + (k + 0.5) * CELL.width + 5)} ${round(top - 6)}) rotate(-90)`,
    }),
  );
  const body = rows.flatMap((word, i) => {
    const y = top + i * CELL.height;
    const cells = cellsOf(scores[i], signed).map(({ text, t, isSigned }, k) => {
      const [colour] = colourAt(isSigned ? Math.sign(t) * 0.5 : 0.5, isSigned);
      const x = round(left + k * CELL.width);
      return (
        tag("rect", {
          class: "cell",
          x,
          y: round(y),
          width: CELL.width - 1,
          height: CELL.height - 1,
          fill: `rgb(${colour.map(Math.round).join(",")})`,
          "fill-opacity": round(FULL_SCORE_OPACITY * Math.abs(t)),
        }) +
        line(x + CELL.width / 2, y + 18, text, {
          size: 11,
          family: MONO,
          "text-anchor": "middle",
        })
      );
    });
    return [line(0, y + 19, word, WORD), ...cells];
  });
  const caption = line(0, top - 6, "answer", { size: 11, fill: SOFT });
  const y = above.height + GAP;
  const drawn = tag("g", { transform: `translate(${MARGIN} ${round(y)})` }, [caption, ...heads, ...body].join(""));
  return sheet(above.markup + drawn, width, y + top + rows.length * CELL.height + MARGIN);
}
