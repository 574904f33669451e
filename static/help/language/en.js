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
    "This is the picture as the model saw it. The maps explain “{answer}”, to which it gives {share}. Give another picture or choose another class, and all maps are computed again.",
  "input.plain":
    "This is the picture as the model saw it. The maps explain “{answer}”. Give another picture or choose another class, and all maps are computed again.",
  "plate.title": "A plate",
  "plate.signed":
    "Each plate is the map of one method; the answer is “{answer}”. {method} shows what speaks for “{answer}” in red, and what speaks against it in blue. Its rank, its time and its notes open under i; “!” stands where its order is in doubt.",
  "plate.unsigned":
    "Each plate is the map of one method; the answer is “{answer}”. {method} shows strength alone: the brighter a part, the more it counts, for “{answer}” or against it. Its rank, its time and its notes open under i; “!” stands where its order is in doubt.",
  "hold.title": "Point and hold",
  "hold.text":
    "Point at a patch, and every plate outlines the same patch and shows its score. A click holds it, so that you can compare. With the keyboard: the arrow keys walk, Home goes to the strongest patch, Escape lets go.",
  "hold.finger":
    "Tap a patch, and every plate outlines the same patch and shows its score, so that you can compare. Tap it again to let go.",
  "methods.title": "Choose methods",
  "methods.text":
    "Here you choose other methods, as a ready set or by name. A method can have several rules, which say how the signal travels back through the model.",
  "test.title": "Your turn",
  "test.bar":
    "Take away what a map marks: does the answer fall? Drag the slider, and every plate loses what its own map marks most. Under each plate stands what is left of “{answer}”. Then press Curves: the dashed line, “random baseline”, takes parts away in random order. Do not believe a map that does no better.",
};
