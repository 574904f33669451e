// Messages of the engine name the arguments of Python ("leave chat= out"); on a page the controls stand in their place.

/** @type {{[argument: string]: string}} the label of the control of a page by the argument of Python */
export const CONTROLS = {
  architecture: "“Architecture”",
  at: "“Place”",
  base: "“Base model of an adapter”",
  chat: "“with the model’s chat template around it”",
  labels: "“Names of its classes”",
  output: "“What its numbers mean”",
  reference: "“Compare with another picture”",
  tokenizer: "“Tokenizer from”",
};
const ARGUMENT = /(?<![\w?&/])([a-z_]{2,})=('[^']*'|"[^"]*"|\[[^\]]*\]|\w+)?/g;
/** @type {[RegExp, string][]} sayings that are said otherwise on a page, before the arguments in what is left */
const SAYINGS = [
  [/leave chat= out/g, `untick ${CONTROLS.chat}`],
  [/Put it around the prompt with chat=True/g, `Tick ${CONTROLS.chat}`],
  [/leave at= out/g, "ask about the whole input"],
  [/leave reference= out/g, "take the second picture away"],
  [/pass tokenizer= to wrap/g, `open the model on Your model with ${CONTROLS.tokenizer}, under More`],
  [/send explainers\.PicturePrompt\([^)]*\)/g, "give a picture and a question about it"],
  [/([Pp])ass (?=(?:architecture|base|labels|tokenizer)=)/g, "fill in "],
];

/**
 * A message of the engine in the words of a page: what to press or fill in, not the arguments of Python. Those that no
 * control stands for stay.
 * @param {string} text
 * @returns {string}
 */
export function inPageWords(text) {
  const said = SAYINGS.reduce((message, [python, page]) => message.replace(python, page), text);
  return said.replace(ARGUMENT, (whole, name, value) => {
    if (!(name in CONTROLS)) return whole;
    return CONTROLS[name] + (value && value !== "True" ? ` ${value}` : "");
  });
}

/**
 * What to do about a guess of a report: the field that overrides it, else that only Python can.
 * @param {string} argument as the report names it: `labels=`
 * @returns {string}
 */
export function otherwise(argument) {
  const name = /^([a-z_]+)=/.exec(argument)?.[1];
  if (name === undefined) return "";
  return name in CONTROLS ? `If it is wrong, fill in ${CONTROLS[name]}` : "If it is wrong, open the model in Python";
}
