// What the words of the field mean, for people who meet them for the first time.

/** @type {{[word: string]: string}} */
export const GLOSSARY = {
  cosine:
    "how near picture and prompt are for the model: 1 is the same direction, 0 nothing in common. Photos and fitting prompts often reach only 0.3; compare prompts with each other.",
  found:
    "the patches that are most like the prompt are like it enough. How much is enough was measured on photos; the card of the model on the page Models says how often that is right.",
  share:
    "how the model divides 100 % among the prompts of the list, as if one of them had to be the title of the whole picture. A thing with a small share may well be there: “found” says whether it is.",
  logit:
    "the score of a class before the scores of all classes are turned into probabilities. The higher, the likelier.",
  "logit difference": "the score (logit) of one class minus that of the other: above 0, the model prefers the first.",
  Libra:
    "a rule for the way back through the model (LibraGrad, 2025). Parts that only cancel each other are left out, so that the scores add up to what is explained.",
  AttnLRP:
    "a rule for the way back through the model (2024). It divides each product in halves between its two factors.",
  "rank correlation":
    "how alike two methods order the patches, words or atoms: 1 is the same order, 0 no more in common than chance, −1 the reverse. Of several pairs of methods the median is the one in the middle.",
  difference:
    "Maps with a sign are subtracted as they are. Maps of strength alone are first divided by the sum of their values, so that both count alike.",
  r: "Pearson’s correlation of the two maps: 1 where they rise and fall together, 0 where they have nothing in common, −1 where one is strong just where the other is weak.",
  "random baseline":
    "what the test gives if patches or words are removed in random order. A map that does no better says nothing.",
};
