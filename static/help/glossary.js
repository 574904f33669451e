// What the words of the field mean, for people who meet them for the first time.

/** @type {{[word: string]: string}} */
export const GLOSSARY = {
  cosine:
    "how alike the model finds picture and prompt: 1 is the same direction, 0 nothing in common. Even prompts that fit often reach only 0.3, so compare prompts with each other.",
  found:
    "the patches most like the prompt are above a threshold, which was measured on photos. The model's card on the page Models says how often that is right.",
  "best patches":
    "the mean cosine of the prompt with the tenth of the patches that is most like it. It alone decides whether a prompt counts as found.",
  "among the prompts":
    "how the model divides 100 % among the prompts, as if one had to be the title of the picture. It is no certainty: with other prompts the share is another.",
  share:
    "how the model divides 100 % among the prompts, as if one had to be the title of the picture. A thing with a small share may well be there: “found” says whether it is.",
  logit: "the score of a class before it becomes a probability. A higher logit means a likelier class.",
  "logit difference": "the logit of one class minus that of the other. Above 0 the model prefers the first.",
  Libra:
    "a rule for how the signal travels back through the model (LibraGrad, 2025). It leaves out parts that cancel each other, so that the scores add up to the answer.",
  AttnLRP:
    "a rule for how the signal travels back through the model (2024). It divides each product in halves between its two factors.",
  "rank correlation":
    "how alike two methods rank the parts of the input: 1 is the same order, 0 chance, −1 the reverse. The median is the middle one of all pairs of methods.",
  difference:
    "Maps with a sign are subtracted as they are. Maps without signs are first divided by the sum of their values, so that both count alike.",
  r: "Pearson’s correlation of the two maps: 1 if they rise and fall together, 0 if they have nothing in common, −1 if one is strong exactly where the other is weak.",
  "random baseline":
    "the result of the test when parts of the input are removed in random order. A map that does no better says nothing.",
};
