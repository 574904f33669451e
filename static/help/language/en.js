// The words of the guided visit in English. A translation is a file next to this one, with the same keys, named by its
// language: fr.js.

/** @type {{[key: string]: string}} */
export default {
  "offer.title": "Is this your first visit?",
  "offer.text": "Five steps show what is on this page. You find them again under ? at the top.",
  "offer.yes": "Show me around",
  "offer.no": "No, thanks",
  step: "Step {i} of {n}",
  next: "Next",
  back: "Back",
  leave: "Leave",
  done: "Done",
  "input.title": "Your picture",
  "input.text":
    "This is the picture as the model saw it. Next to it are the model's answer and how sure it is. Give another picture or choose another class, and all maps are computed again.",
  "plate.title": "A plate",
  "plate.signed":
    "A plate is the answer of one method to one question: which parts of the picture made the model say this? This method knows two directions: red speaks for the class, blue against it. Its result in tests is under its name, which links to its page.",
  "plate.unsigned":
    "A plate is the answer of one method to one question: which parts of the picture made the model say this? This method knows only strength: the brighter a place, the more it counted, for the class or against it. Its result in tests is under its name, which links to its page.",
  "hold.title": "Point and hold",
  "hold.text":
    "Point at a patch, and every plate outlines the same patch and shows its score. A click holds it, so that you can compare. With the keyboard: the arrow keys walk, Home goes to the strongest patch, Escape lets go.",
  "hold.finger":
    "Tap a patch, and every plate outlines the same patch and shows its score, so that you can compare. Tap it again to let go.",
  "methods.title": "Choose methods",
  "methods.text":
    "The methods that did best in tests come first. Here you choose others, as a ready set or by name. A method can have several rules, which say how the signal travels back through the model.",
  "test.title": "The deletion test",
  "test.bar":
    "Methods disagree, so put them to the test. Drag the slider, and every plate loses what its own map calls most relevant. The better the map, the sooner the model changes its mind. Do not believe a map that does no better than the random baseline.",
  "test.random":
    "Methods disagree, so do not believe a map because it looks good. This plate is random. A map that looks no better says nothing.",
  "test.choose":
    "Methods disagree, so do not believe a map because it looks good. Choose the method Random too. A map that looks no better says nothing.",
};
