// What the words of the field mean, for people who meet them for the first time.

/** @type {{[word: string]: string}} */
export const GLOSSARY = {
  cosine:
    "how near picture and prompt are for the model: 1 is the same direction, 0 nothing in common. Photos and fitting prompts often reach only 0.3; compare prompts with each other.",
  share:
    "the model’s certainty divided among the prompts in the list. The shares add up to 100 %, also where none of the prompts is in the picture.",
  logit:
    "the score of a class before the scores of all classes are turned into probabilities. The higher, the likelier.",
  "logit difference": "the score (logit) of one class minus that of the other: above 0, the model prefers the first.",
  Libra:
    "a rule for the way back through the model (LibraGrad, 2025). Parts that only cancel each other are left out, so that the scores add up to what is explained.",
  AttnLRP:
    "a rule for the way back through the model (2024). It divides each product in halves between its two factors.",
  "random baseline":
    "what the test gives if patches or words are removed in random order. A map that does no better says nothing.",
};
