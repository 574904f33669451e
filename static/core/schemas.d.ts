// What HTTP takes and gives, from the OpenAPI document. No page loads this. It is made: `python -m tools.script_types`.

/** What the model can't know, in place of an answer or beside it. */
export interface Abstention {
  kind: string;
  /** In few words. */
  says: string;
  /** In a sentence. */
  detail: string;
  /** The number that crossed the line. */
  score: number;
  line: number;
}

/** Where a model says that it does not know: beyond a line that was measured. */
export interface AbstentionLine {
  kind: string;
  /** In few words. */
  says: string;
  /** What is held against the line. */
  score: string;
  line: number;
  /** Whether the model abstains below the line; else above. */
  below: boolean;
  /** On what, in a sentence. */
  measured: string;
  /** What the model is known to miss, in a sentence. */
  misses?: string;
  /** The kind of prompts that it is about; else all. */
  prompts?: string;
}

/** How alike the maps of an explanation order the patches or words. */
export interface Agreement {
  id: string;
  target: string;
  measure: "spearman";
  /** In an order that puts like beside like. */
  methods: string[];
  /** Rows and columns in that order; null where a map has one score throughout. */
  correlations: ((number | null)[])[];
  tokens: number;
  /** What they have in common, in words; "" where there is nothing to say. */
  sentence: string;
}

/** Another input. */
export interface AlikeRequest {
  /** A rule of GET /api/rules that carries gradients. */
  rule?: string;
  /** Steps of the path from the baseline over which Jacobians are averaged; 0: at the input itself. */
  steps?: number;
  /** Where the path begins: at zeros, or at the tokens of a picture of zeros and of a text of one padding token. */
  baseline?: "zero" | "empty";
  /** Of which block the tokens enter. */
  block?: "first" | "last";
  /** How the average over the path is taken. */
  quadrature?: "gauss_legendre" | "riemann";
  /** The id of a finished explanation of another input by the same model. */
  other: string;
}

/** Why the model finds two inputs alike. */
export interface Alikeness {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  cosine: number;
  /** The sum of the pairs. */
  total: number;
  first: InteractionSide;
  second: InteractionSide;
  /** A row for each unit of the first, a column for each of the second. */
  pairs: number[][];
  strongest: InteractionPair[];
  seconds: number;
  rule: string;
  steps: number;
  baseline: "zero" | "empty";
  block: "first" | "last";
  quadrature: "gauss_legendre" | "riemann";
  /** What pairs of special tokens add. */
  other_tokens: number;
  /** The rest of the cosine. */
  baseline_terms: number;
  /** The id of the explanation of the other input. */
  other: string;
}

/** What each word of the prompt did for each word of the answer. */
export interface AnswerTable {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  method: string;
  /** Of the method. */
  title: string;
  /** Whether scores are for and against. */
  signed: boolean;
  answer: string;
  /** The words of the answer. */
  rows: string[];
  /** Of each row, what the field `at` of POST /api/explanations takes. */
  places: string[];
  /** The words of the prompt. */
  columns: string[];
  /** Of each row, the sum of the logits of its tokens. */
  logits: number[];
  /** A row a word of the answer, a column a word of the prompt. */
  scores: number[][];
}

/** By which method. */
export interface AnswerTableRequest {
  /** A spec, whose maps are the rows; none: input_x_gradient:attnlrp. */
  method?: string | null;
}

/** By how much what arrives at the input of a block misses the explained number. */
export interface BlockFigure {
  value: number | null;
  low: number | null;
  high: number | null;
  /** The same, bias terms left out. */
  without_biases: number | null;
}

/** What a block adds to a map. */
export interface BlockTerm {
  /** The sum over patches or words. */
  total: number;
  scores: number[];
  block: number;
}

/** A bond of a molecule. */
export interface Bond {
  /** The places of its atoms among the words. */
  atoms: [number, number];
  /** 1.5 for an aromatic one. */
  order: number;
}

/** An input that could not be read. */
export interface BrokenInput {
  index: number;
  input: string | null;
  /** Why. */
  broken: string;
}

/** What makes probabilities of logits, and where the model abstains. */
export interface Calibration {
  temperature: number;
  lapse: number;
  lines: AbstentionLine[];
}

/** Nothing further is said. */
export interface CancelledData {
}

/** It was cancelled. */
export interface CancelledEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "cancelled";
  data: Blob;
}

/** A class: its label, its groups, and other words for it. */
export interface ClassEntry {
  label: string;
  /** The everyday one. */
  group?: string;
  /** All of them: each may be asked for as any:<group>. */
  groups?: string[];
  synonyms?: string[];
  /** Of WordNet. */
  wnid?: string;
}

/** What each block adds to a map that is a sum over blocks. */
export interface Contributions {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  method: string;
  title: string;
  target: string;
  signed: boolean;
  grid?: [number, number];
  blocks: BlockTerm[];
  /** What belongs to no block. */
  rest: Term | null;
}

/** Whose blocks to take apart. */
export interface ContributionsRequest {
  /** A spec whose method is a sum over blocks (``summed`` in GET /api/methods). */
  method: string;
  /** The label of a target of the explanation; none: the first. */
  target?: string | null;
}

/** How many comparisons of a control with methods that are measurably truer or less true a metric puts right. */
export interface ControlFigure {
  right: number;
  of: number;
}

/** Where a metric puts a control in one world. */
export interface ControlPlace {
  right: number;
  of: number;
  /** Among those methods and the control. */
  place: number;
}

/** Where a metric puts the controls of a world. */
export interface ControlsInWorld {
  /** By control. */
  places: { [name: string]: ControlPlace };
  /** On which side of random numbers it puts the truth itself. */
  random: "above" | "below" | "alike" | null;
  /** On which side of its inverse it puts the truth itself. */
  inverted: "above" | "below" | "alike" | null;
  /** How many pairs of controls have a known order. */
  pairs: number;
  pairs_right: number;
}

/** Where a metric puts the controls of the worlds of a kind of input. */
export interface ControlsOfKind {
  /** By control, over the worlds whose marks are all that answers come from. */
  controls: { [name: string]: ControlFigure };
  /** Whether it puts the truth first and its inverse last in each of these; null where there is none. */
  first: boolean | null;
  /** The worlds in which it puts the truth measurably below random numbers. */
  below_random: string[];
  /** Those in which it cannot tell the truth from random numbers. */
  like_random: string[];
  /** Those in which it puts the truth measurably below its inverse. */
  below_inverted: string[];
  /** Those in which it cannot tell the truth from its inverse. */
  like_inverted: string[];
  pairs: number;
  pairs_right: number;
  worlds: number;
}

/** The median over inputs, and its quartiles. */
export interface CostFigure {
  value: number | null;
  low: number | null;
  high: number | null;
  inputs: number;
}

/** The curve of one map and order. */
export interface DeletionCurve {
  area: number;
  probability?: number[];
  logit?: number[];
  value?: number[];
  method: string;
  order: "most" | "least";
}

/** The deletion test of the maps of a target. */
export interface DeletionCurves {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  target: string;
  /** What areas and ranks are made of. */
  read: "probability" | "logit" | "value";
  how: string;
  tokens: number;
  fractions: number[];
  /** How many tokens are gone at each of the fractions. */
  counts: number[];
  curves: DeletionCurve[];
  random: RandomCurve;
  ranking: DeletionRank[];
}

/** With none of ``remove``, ``keep``, ``fraction`` and ``replace``: the curves of the methods. With one of them: one answer. */
export interface DeletionQuestion {
  /** The label of one of the explained targets; none: the first. */
  target?: string | null;
  /** Curves: specs of maps of the explanation; none: all. */
  methods?: string[] | null;
  /** Which tokens go first: the most or the least relevant. Curves: none gives both; one answer: none is most. */
  order?: "most" | "least" | null;
  /** Curves: shares of tokens that are gone; none: 0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1. */
  fractions?: number[] | null;
  /** One answer: the indices of the tokens to take away, as in the scores of a map. */
  remove?: number[] | null;
  /** One answer: the indices of the tokens to keep; all others are taken away. */
  keep?: number[] | null;
  /** One answer: the spec of the map by whose order `fraction` takes away. */
  method?: string | null;
  /** One answer: the share of tokens to take away, first of the order of `method`. */
  fraction?: number | null;
  /** One answer, texts: words in place of others, by their index in input.words. */
  replace?: { [name: string]: string } | null;
  /** One answer, images: patches are taken out (removed) or painted in the mean colour (painted); none: taken out where the model allows it. */
  how?: "removed" | "painted" | null;
}

/** How a method did; random orders stand among the methods, with rank 0. */
export interface DeletionRank {
  method: string;
  rank: number;
  /** The area of the most relevant first. */
  most?: number;
  /** The area of the least relevant first. */
  least?: number;
  /** The second less the first. */
  gap?: number;
  /** Whether it is random orders. */
  control?: boolean;
}

/** How well scores name what the model needs. */
export interface DeletionScore {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  read: "probability" | "logit" | "value";
  /** Under the curve while tokens go most important first: the lower, the better. */
  area: number;
  how: string;
  tokens: number;
}

/** How long the model worked. */
export interface DoneData {
  seconds: number | null;
}

/** All maps are there. */
export interface DoneEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

/** A molecule drawn: a plain SVG of outlines. */
export interface Drawing {
  svg: string;
  /** Width and height. */
  size: [number, number];
  /** Where each atom lies in it. */
  places: [number, number][];
}

/** What the model says with exactly these tokens gone. */
export interface EditedAnswer {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  target: string;
  read: "probability" | "logit" | "value";
  how: string;
  tokens: number;
  removed: number[];
  /** Of a text, as it was asked, before tokens were taken away. */
  text?: string;
  probability?: number;
  logit?: number;
  value?: number;
  top: Target[];
}

/** An input of a run. */
export interface Example {
  place: number;
  name: string;
  target: string;
  value: number;
  /** The address of a picture of its map. */
  image?: string;
  /** Of a text. */
  words?: ExampleWord[];
}

/** A word and its score from -1 to 1. */
export interface ExampleWord {
  text: string;
  score: number;
}

/** The inputs on which a method did best and worst by a metric. */
export interface Examples {
  metric: string;
  method: string;
  best: Example[];
  worst: Example[];
}

/** About how long it will take. */
export interface ExpectedData {
  seconds: number;
}

/** An explanation, as it is stored and sent; while it is made, with the maps that are there. Options that are as usual are left out. */
export interface Explanation {
  /** A text longer than the model takes: read in overlapping windows, whose places are in the answer, or cut to what the model takes. */
  long_texts?: "windows" | "cut";
  /** double: every map of relevance in float64; auto: those whose estimated rounding error asks for it. */
  precision?: "auto" | "double";
  /** Of a model with a task, such as token classification: which place of its output is asked about, a word, tokens:5-7 or patch:3,4; places of an answer lists them. None: the one that the model is surest of. */
  at?: string | null;
  /** Of a language model that writes: lay its tokenizer's chat template around the prompt (chat_template of a model says whether there is one). Its tokens have part 4, always stay, and no map lies on them. */
  chat?: boolean;
  /** Of images: move explains the model without outlier tokens (test-time registers), move_published as the published code does it; its register neurons must be known, as POST /api/explanations/{id}/registers finds them. */
  outlier_tokens?: "keep" | "move" | "move_published";
  /** The person's name for it. */
  title?: string;
  /** What the logits mean. */
  output?: "softmax" | "sigmoid" | "regression";
  input?: ImageInput | TextInput;
  /** Where the words of prompts are explained. */
  prompts?: PromptInput[];
  /** Of a text that is longer than the model takes. */
  windows?: TextWindow[];
  /** Of a model that gives more than one answer to an input: its task, such as token-classification. */
  task?: string;
  /** Of such a model, the place of its output that is explained. */
  place?: OutputPlace;
  /** Of such a model, which places there are. */
  places?: OutputPlace[];
  /** Of a model whose outlier tokens are known: which patches are such. */
  outliers?: OutlierPatches;
  /** What is explained. */
  targets?: Target[];
  /** What the model finds likeliest, best first. */
  top?: Target[];
  abstention?: Abstention;
  /** What a person should know. */
  notes?: string[];
  id: string;
  state: "queued" | "running" | "done" | "failed" | "cancelled";
  /** ISO 8601, UTC; with the model left out where what was stored is damaged. */
  created?: string;
  model?: string;
  /** SHA-256 of the model's weights. */
  weights_digest?: string;
  /** Of the libraries. */
  versions?: { [name: string]: string };
  /** Specs. */
  methods?: string[];
  maps: Map[];
  /** The place of each map in the order in which they were made, where that is another. */
  made?: number[];
  /** That the model worked. */
  seconds?: number;
  /** Why it failed. */
  problem?: ProblemDocument;
  /** That it is somebody else's: its link shares it to be read. */
  shared?: boolean;
}

/** What a list of explanations shows of one. */
export interface ExplanationSummary {
  id: string;
  state: "queued" | "running" | "done" | "failed" | "cancelled";
  title?: string;
  created?: string;
  model?: string;
  targets?: Target[];
  abstention?: Abstention;
  problem?: ProblemDocument;
  seconds?: number;
  /** Where it can be looked at. */
  page: "/image" | "/prompt" | "/text" | "/molecule";
  maps: number;
  methods: number;
  /** The random maps beside the methods. */
  controls: number;
  specs: string[];
  /** Of a text. */
  excerpt?: string;
  /** The same for all explanations of one picture or text. */
  about?: string;
  /** The first ones of a text. */
  words?: ScoredWord[];
  /** The address of the picture, small. */
  thumbnail?: string;
  /** The address of the picture of one map. */
  map?: string;
}

/** The name that an explanation has now. */
export interface ExplanationTitle {
  id: string;
  title: string | null;
}

/** It failed. */
export interface FailedEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "failed";
  data: Blob;
}

/** Why it failed. */
export interface Failure {
  problem: ProblemDocument;
}

/** The same by a regression over coalitions of words and patches (FIxLIP). */
export interface FaithfulInteraction {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  cosine: number;
  /** The sum of the pairs. */
  total: number;
  first: InteractionSide;
  second: InteractionSide;
  /** A row for each unit of the first, a column for each of the second. */
  pairs: number[][];
  strongest: InteractionPair[];
  seconds: number;
  variant: "banzhaf" | "shapley";
  p: number;
  budget: number;
  parts: number;
  /** The cosine when nothing is shown. */
  empty: number;
  /** What is added to the terms of every coalition. */
  constant: number;
  /** What each word, and each patch, adds on its own. */
  first_order: number[][];
  /** How many prompts and how many pictures with parts left out were asked. */
  coalitions: number[];
  /** The share of the variance of other coalitions that the terms foretell (R²). */
  faithfulness: number;
}

/** A prompt, and which coalitions of its words and of parts of the picture are asked. */
export interface FaithfulInteractionRequest {
  /** Any prompt; none: the first that was explained. */
  prompt?: string | null;
  /** How coalitions weigh in the regression. */
  variant?: "banzhaf" | "shapley";
  /** How many of the words and parts are in a coalition, on average. */
  p?: number;
  /** Coalitions that are fitted, at most. */
  budget?: number;
  /** Parts of the picture that are hidden on their own, at most. */
  parts?: number;
  /** Of the draw of coalitions. */
  seed?: number;
}

/** Of greys of more than 8 bits, the values that are shown as black to white. */
export interface GreyWindow {
  level: number;
  width: number;
  source: "set" | "file" | "range";
}

/** Small maps of heads. */
export interface HeadMaps {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  quantity: string;
  signed: boolean;
  target: string;
  /** Whose row it is. */
  origin: "class_token" | "read_token" | "mean" | "token";
  token: number | null;
  /** How many heads each block has. */
  heads: (number | null)[];
  grid?: [number, number];
  blocks: HeadsOfBlock[];
}

/** A row of the map of a head. */
export interface HeadRow {
  scores: number[];
  /** The sum over the tokens that stand for no patch or word. */
  outside: number;
}

/** A text that says what differs in what a head adds. */
export interface HeadText {
  text: string;
  /** Of the variance of what the head adds over the pictures, what lies along this text. */
  share: number;
}

/** The heads of one block; null where it has no maps. */
export interface HeadsOfBlock {
  block: number;
  heads: HeadRow[] | null;
  mean: HeadRow | null;
}

/** What to look at in the heads, and which of them. */
export interface HeadsRequest {
  /** One of GET /api/quantities. */
  quantity?: string;
  /** Whose row: a patch in raster order or a word piece; none: what the model's head reads. */
  token?: number | null;
  /** One block or several, counted from 0; none: all. ``heads`` in the answer says how many heads each has. */
  block?: number | number[] | null;
  /** One head, counted from 0; none: all. */
  head?: number | null;
  /** The label of a target of the explanation; none: the first. */
  target?: string | null;
}

/** Requests are answered, and work moves. */
export interface Health {
  status: "ok";
}

/** A picture as the model was shown it. */
export interface ImageInput {
  kind: "image";
  /** Of the upright original, in pixels. */
  width: number;
  height: number;
  /** What was seen of the upright original. */
  crop: [number, number, number, number];
  /** Columns and rows of pixels that the model saw. */
  seen: [number, number];
  /** The part that was asked for. */
  frame?: [number, number, number, number];
  /** Of a clip, how many frames lie below each other; the grid of a map has the rows of each in turn. */
  frames?: number;
  window?: GreyWindow;
  /** Of the upload. */
  sha256?: string;
}

/** The same by the Jacobians of both encoders. */
export interface Interaction {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  cosine: number;
  /** The sum of the pairs. */
  total: number;
  first: InteractionSide;
  second: InteractionSide;
  /** A row for each unit of the first, a column for each of the second. */
  pairs: number[][];
  strongest: InteractionPair[];
  seconds: number;
  rule: string;
  steps: number;
  baseline: "zero" | "empty";
  block: "first" | "last";
  quadrature: "gauss_legendre" | "riemann";
  /** What pairs of special tokens add. */
  other_tokens: number;
  /** The rest of the cosine. */
  baseline_terms: number;
}

/** A unit of the first input and one of the second. */
export interface InteractionPair {
  first: number;
  second: number;
  score: number;
}

/** A prompt. */
export interface InteractionRequest {
  /** A rule of GET /api/rules that carries gradients. */
  rule?: string;
  /** Steps of the path from the baseline over which Jacobians are averaged; 0: at the input itself. */
  steps?: number;
  /** Where the path begins: at zeros, or at the tokens of a picture of zeros and of a text of one padding token. */
  baseline?: "zero" | "empty";
  /** Of which block the tokens enter. */
  block?: "first" | "last";
  /** How the average over the path is taken. */
  quadrature?: "gauss_legendre" | "riemann";
  /** Any prompt; none: the first that was explained. */
  prompt?: string | null;
}

/** One of two inputs, and what each of its words or patches adds to the cosine with the whole of the other. */
export interface InteractionSide {
  input: ImageInput | TextInput;
  grid?: [number, number];
  scores: number[];
}

/** How the ends of intervals were found. */
export interface Interval {
  level: number;
  draws: number;
}

/** The regions of a label. */
export interface LabelRegions {
  /** Its value in regions.png. */
  index: number;
  patches: number;
  share: number;
  label: string;
  colour: [number, number, number];
  regions: Region[];
}

/** Every run. */
export interface Leaderboard {
  runs: RunReport[];
  /** Null where no comparison ships. */
  truth: MetricTruth | null;
  /** By the kind of input. */
  rankings: { [name: string]: Ranking };
  /** Which of the folders cannot be read. */
  problems: string[];
}

/** At most ``most``; the rest is the refusal of more. */
export interface Limit {
  most: number;
  type: string;
  title: string;
  /** With {count} and {what} for how many of what there were. */
  detail: string;
  send: string;
}

/** What one request may hold. */
export interface Limits {
  limits: { [name: string]: Limit };
}

/** The model could not be loaded. */
export interface LoadFailedEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "failed";
  data: Blob;
}

/** Why it could not be loaded. */
export interface LoadFailure {
  problem: ProblemDocument;
}

/** How far the loading is. */
export interface LoadProgress {
  text: string;
  /** Where it is known. */
  fraction?: number;
}

/** The model is there. */
export interface LoadedEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "loaded";
  data: Blob;
}

/** What one method says about one target. */
export interface Map {
  by: string;
  year: number | null;
  paper: string;
  /** The spec: what was asked for. */
  method: string;
  /** The part of the spec that names the method. */
  readout: string;
  /** The backward rule; null for a method that reads no signal. */
  rule: string | null;
  /** The options that the spec names; left out where it names none. */
  options?: { [name: string]: boolean | number | string };
  title: string;
  /** Whether the title says the rule; left out where an earlier version made the map. */
  names_rule?: boolean;
  /** The label of what is explained. */
  target: string;
  /** Rows and columns of its map of the pixels, where there is one: /maps/{method}.npy?at=pixels has it. */
  pixels?: [number, number];
  /** The smallest and the largest score. */
  range: [number, number];
  /** Whether scores tell for from against, or only strength. */
  signed: boolean;
  /** Whether another target may have another map. */
  class_specific: boolean;
  /** What the scores promise to add up to; null: nothing. */
  adds_up_to?: string | null;
  /** By how much they miss it. */
  completeness_error?: number;
  /** Of a map drawn at random, its correlation with that of another seed, estimated. */
  seed_correlation?: number;
  /** Of a map of relevance. */
  precision?: MapPrecision;
  seconds: number;
  /** What a person should know. */
  notes: string[];
  /** Of an image those of the patches in raster order, of a text one for each token. */
  scores: number[];
  /** Rows and columns of the patches; a text has none. */
  grid?: [number, number];
}

/** In which precision a map of relevance was computed, and why. */
export interface MapPrecision {
  dtype: string;
  why: string;
  /** By how much of the largest score rounding may change the map in the model's own precision. */
  rounding: number | null;
}

/** A data set, and whether a model can be measured on it. */
export interface MeasurableDataset {
  name: string;
  title: string;
  inputs: number;
  /** What is known of its inputs, in words. */
  gives: string[];
  /** Whether it comes with Vitrine. */
  shipped: boolean;
  /** Why the model cannot be measured on it. */
  reason: string | null;
}

/** A metric, and whether it can be measured. */
export interface MeasurableMetric {
  name: string;
  title: string;
  family: string;
  /** What a data set has to give, in words. */
  needs: string[];
  /** Why it cannot be measured here. */
  reason: string | null;
}

/** A model that is loaded, and the data sets. */
export interface MeasurableModel {
  name: string;
  title: string;
  datasets: MeasurableDataset[];
}

/** A method with every rule that it goes with. */
export interface Method {
  by: string;
  year: number | null;
  paper: string;
  name: string;
  title: string;
  family: string;
  classic: boolean;
  /** The usual one. */
  rule: string | null;
  also: string[];
  /** Those that it is listed with. */
  rules: string[];
  signed: boolean;
  class_specific: boolean;
  description: string;
  /** What the model must have, in words. */
  needs: { [name: string]: string };
  passes: string;
  slow: boolean;
  default: boolean;
  promise: Promise | null;
  summed: boolean;
  class_attention: string | null;
  options: MethodOption[];
  pairs: MethodPair[];
}

/** How many methods there are. */
export interface MethodCounts {
  readouts: number;
  methods: number;
  listed: number;
  parts: number;
}

/** A map is there. */
export interface MethodEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "method";
  data: Blob;
}

/** Methods that work alike. */
export interface MethodFamily {
  name: string;
  title: string;
  line: string;
}

/** An option of a method. */
export interface MethodOption {
  name: string;
  kind: "int" | "float" | "bool" | "str";
  default: boolean | number | string | null;
  help: string;
  minimum: number | null;
  maximum: number | null;
  choices: string[];
  /** In words. */
  allowed: string;
}

/** What is wanted first. */
export interface MethodOrder {
  /** Specs, what is wanted first in front; those that are done or not made are passed over. */
  methods: string[];
}

/** A method with one rule. */
export interface MethodPair {
  by: string;
  year: number | null;
  paper: string;
  spec: string;
  rule: string | null;
  title: string;
  /** Whether the title says the rule. */
  names_rule: boolean;
  adds_up_to: string | null;
  reason: string | null;
  remedies: string[];
  /** What it shows, in plain words. */
  line: string;
}

/** The methods, and what helps to choose among them. */
export interface Methods {
  methods: Method[];
  variants: Variant[];
  rules: Rule[];
  /** Where no model is named. */
  counts?: MethodCounts;
  families: MethodFamily[];
  presets: Preset[];
  standing: Standing | null;
  /** Of a CLIP model's image side. */
  together?: TogetherMethods;
  /** The parts of the specs that were asked about. */
  specs?: SpecParts[];
}

/** Where a metric puts the controls; null where it has no value for the truth itself. */
export interface MetricControls {
  kinds: { [name: string]: ControlsOfKind | null };
  worlds: { [name: string]: ControlsInWorld | null };
}

/** A metric against the truth. */
export interface MetricOnTruth {
  name: string;
  title: string;
  family: string;
  /** Whether it is told the truth itself, as an outline or as marked words. */
  reads_marks: boolean;
  /** By the kind of input. */
  kinds: { [name: string]: TruthOfKind | null };
  worlds: { [name: string]: TruthInWorld | null };
  controls: MetricControls;
  /** By the kind of input, why it is not to be believed there, each a predicate. */
  doubts: { [name: string]: string[] };
}

/** Which metrics put methods in the order of the truth. */
export interface MetricTruth {
  interval: Interval;
  worlds: TruthWorld[];
  metrics: MetricOnTruth[];
  /** Which metric to use. */
  advice: string[];
  /** What the figures say. */
  sentences: string[];
}

/** The map of a method under a rule that was put together. */
export interface Mix {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  rule: MixedRule;
  map: Map;
  /** How far FullGrad's terms are, under that rule, from adding up to the score. */
  completeness_error: number | null;
  /** The score. */
  value: number | null;
}

/** A method and a rule. */
export interface MixRequest {
  /** A method of GET /api/methods that has a rule, with its options but without a rule. ``readout`` is read too. */
  method: string;
  /** Kind of operator -> choice, as GET /api/rules lists them; what is left out is as for the ordinary gradient. */
  rule: { [name: string]: string | boolean };
  /** The label of a target of the explanation; none: the first. */
  target?: string | null;
}

/** The rule that was put together. */
export interface MixedRule {
  name: string;
  title: string;
  choices: { [name: string]: string | boolean };
}

/** A model of the list. */
export interface Model {
  name: string;
  /** null where it is not known yet. */
  kind: "image" | "text" | "clip" | "molecule" | null;
  title: string;
  description: string;
  embedded: boolean;
  state: "available" | "loading" | "loaded" | "failed";
  default: boolean;
  /** Whether it is made for photos that people bring. */
  photos: boolean;
  recommended: boolean;
  /** Of its download. */
  megabytes: number | null;
  good_for: string;
  details: ModelDetails;
  /** Why it could not be loaded. */
  problem?: ProblemDocument;
  device?: string;
  weights_digest?: string;
  /** Once it is loaded, if it has lines. */
  calibration?: Calibration;
}

/** A model with its card, its classes and what explains it. */
export interface ModelDetail {
  name: string;
  /** null where it is not known yet. */
  kind: "image" | "text" | "clip" | "molecule" | null;
  title: string;
  description: string;
  embedded: boolean;
  state: "available" | "loading" | "loaded" | "failed";
  default: boolean;
  /** Whether it is made for photos that people bring. */
  photos: boolean;
  recommended: boolean;
  /** Of its download. */
  megabytes: number | null;
  good_for: string;
  details: ModelDetails;
  /** Why it could not be loaded. */
  problem?: ProblemDocument;
  device?: string;
  weights_digest?: string;
  /** Once it is loaded, if it has lines. */
  calibration?: Calibration;
  labels: string[];
  /** Markdown. */
  card: string | null;
  /** Once it is loaded. */
  variants?: Variant[];
  /** Where they are known. */
  classes?: ClassEntry[];
}

/** What is known of a model once it is loaded. */
export interface ModelDetails {
  blocks?: number;
  /** null where the model does not say. */
  heads?: number | null;
  /** Of the residual stream. */
  width?: number | null;
  /** Of a picture. */
  channels?: number | null;
  /** Of a clip; a picture and a text have none. */
  frames?: number | null;
  /** Rows and columns of patches; a text has none. */
  grid?: [number, number] | null;
  /** Of the patches of a picture among the words of a prompt; null where there are none. */
  picture_grid?: [number, number] | null;
  /** Height and width in pixels; a text has none. */
  input?: [number, number] | null;
  /** Of a text. */
  max_tokens?: number | null;
  /** A CLIP model and a regression have none. */
  classes?: number | null;
  mask_token_id?: number | null;
  padding_token_id?: number | null;
  unknown_token_id?: number | null;
  parameters?: number;
  /** The softmax or sigmoid that the head ends in. */
  final_activation?: string | null;
  /** What ``final_activation`` was called in 0.1. */
  squashing?: string | null;
  class_token?: boolean;
  library?: string | null;
  /** What it gives besides one row of logits a sample; left out where it gives that. */
  task?: string;
  /** How a page lets one choose a place of its output. */
  place_control?: "words" | "patches" | "boxes" | "region" | "list";
  /** What may be sent as at. */
  places_are?: string;
  /** What the two texts are called that it reads together: send text and text_pair. */
  texts?: [string, string];
  /** Whether a chat template can be laid around its prompts. */
  chat_template?: boolean;
  source?: string;
  /** Of a CLIP model: logit = logit_scale * cosine + logit_bias. */
  logit_scale?: number;
  logit_bias?: number;
}

/** What was found, before anything is opened. what in words: a folder of transformers, a file of weights, ... architectures that the weights may be of, the likeliest first; empty where none is needed or known needs_architecture whether one must be named classes how many the head has, where that is known guess which of several was taken left_out names of files that were not kept */
export interface ModelLook {
  what: string;
  name: string;
  architectures: string[];
  needs_architecture: boolean;
  classes: number | null;
  guess: string | null;
  left_out: string[];
}

/** What is looked at: an upload, or a path of the server's machine. */
export interface ModelPlace {
  upload?: string | null;
  path?: string | null;
}

/** What a model is, as ``Model.report`` has it in Python. */
export interface ModelReport {
  name: string;
  opened: string;
  facts: ReportFact[];
  reading: string;
  guesses: ReportGuess[];
  notes: string[];
  checks: ReportCheck[];
  seconds: number;
}

/** A model to load. */
export interface ModelRequest {
  name: string;
}

/** Every model. */
export interface Models {
  models: Model[];
  /** Whether others of the hub can be had with POST /api/models. */
  may_load: boolean;
}

/** What there is to a molecule besides the text of its SMILES, whose words are its atoms. */
export interface MoleculePart {
  bonds: Bond[];
  toxicophores: Toxicophore[];
  drawing: Drawing | null;
}

/** A model that is being opened: ``events`` tells how far. */
export interface Opening {
  name: string;
  state: "loading" | "loaded";
  events: string;
}

/** What is opened, and how; ``labels`` is the text of a list of names and ``labels_name`` the name of its file, whose ending counts. */
export interface OpeningQuestion {
  upload?: string | null;
  path?: string | null;
  name?: string;
  architecture?: string | null;
  labels?: string | null;
  labels_name?: string;
  base?: string | null;
  tokenizer?: string | null;
  output?: "softmax" | "sigmoid" | "regression" | null;
}

/** ``report`` of a model that is open, ``failure``, a text to send to others, of one that could not be opened. */
export interface OpeningReport {
  name: string;
  state: string;
  kind?: string | null;
  report?: ModelReport | null;
  failure?: string | null;
}

/** A kind of operators, and the choices that a rule has for them. */
export interface OperatorKind {
  name: string;
  title: string;
  covers: string;
  choices: RuleChoice[];
}

/** Patches whose norm stands apart from the others'. */
export interface OutlierPatches {
  /** Counted from 0: the norms of what it gives. */
  block: number;
  threshold: number;
  /** In raster order, those whose norm is above it. */
  patches: number[];
}

/** A part of a model's output that can be asked about, and what the model says there. */
export interface OutputPlace {
  /** What to send as at. */
  at: string;
  label: string;
  /** The first and the last of the text's pieces, or of the model's tokens, that it is about. */
  tokens?: [number, number];
  /** The row and the column of the patch that it is about. */
  patch?: [number, number];
  /** x0, y0, x1, y1 as shares of the picture that the model saw. */
  box?: [number, number, number, number];
  /** Which share of that picture it is, where it is no rectangle. */
  area?: number;
  /** The label of the top class there. */
  says?: string;
  /** Its probability. */
  score?: number;
}

/** What this server takes of whoever asks. ``why``: where it takes nothing. */
export interface OwnModelLimits {
  uploads: boolean;
  paths: boolean;
  most_mb: number;
  why?: string | null;
}

/** Which patch the others are compared with. */
export interface PatchRequest {
  /** Its number in raster order. */
  patch?: number;
}

/** How alike the patches of a picture are to the model. */
export interface PatchSimilarity {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  grid: [number, number];
  /** Which features are compared. */
  source: string;
  /** For each patch the first three principal components as red, green and blue, each from its smallest to its largest. */
  colours: [number, number, number][];
  /** The share of the variance that each component has. */
  variance: number[];
  /** The row and column of the one patch. */
  patch: [number, number];
  /** Of each patch's features with those of the one. */
  cosines: number[];
}

/** Where an explanation that is being made will be. */
export interface PendingExplanation {
  id: string;
  url: string;
  events: string;
  /** Whether it is finished, as it was made before: all that belongs to it is there. */
  stored?: boolean;
}

/** How to follow the loading of a model. */
export interface PendingModel {
  name: string;
  state: "available" | "loading" | "loaded" | "failed";
  events: string;
}

/** A picture that stands among the tokens of a text. */
export interface PicturePart {
  kind: "image";
  /** Of the upright original, in pixels. */
  width: number;
  height: number;
  /** What was seen of the upright original. */
  crop: [number, number, number, number];
  /** Columns and rows of pixels that the model saw. */
  seen: [number, number];
  /** The part that was asked for. */
  frame?: [number, number, number, number];
  /** Of a clip, how many frames lie below each other; the grid of a map has the rows of each in turn. */
  frames?: number;
  window?: GreyWindow;
  /** Of the upload. */
  sha256?: string;
  /** Rows and columns of its patches, each a token. */
  grid: [number, number];
  /** The first of these tokens; they follow each other in raster order, and have part 3. */
  first: number;
}

/** A map of the pixels that the model saw. */
export interface PixelMap {
  by: string;
  year: number | null;
  paper: string;
  /** The spec: what was asked for. */
  method: string;
  /** The part of the spec that names the method. */
  readout: string;
  /** The backward rule; null for a method that reads no signal. */
  rule: string | null;
  /** The options that the spec names; left out where it names none. */
  options?: { [name: string]: boolean | number | string };
  title: string;
  /** Whether the title says the rule; left out where an earlier version made the map. */
  names_rule?: boolean;
  /** The label of what is explained. */
  target: string;
  /** Rows and columns of its map of the pixels, where there is one: /maps/{method}.npy?at=pixels has it. */
  pixels?: [number, number];
  /** The smallest and the largest score. */
  range: [number, number];
  /** Whether scores tell for from against, or only strength. */
  signed: boolean;
  /** Whether another target may have another map. */
  class_specific: boolean;
  /** What the scores promise to add up to; null: nothing. */
  adds_up_to?: string | null;
  /** By how much they miss it. */
  completeness_error?: number;
  /** Of a map drawn at random, its correlation with that of another seed, estimated. */
  seed_correlation?: number;
  /** Of a map of relevance. */
  precision?: MapPrecision;
  seconds: number;
  /** What a person should know. */
  notes: string[];
  /** Rows of pixels. */
  scores: number[][];
}

/** The place of a method in a run. */
export interface Place {
  rank: number;
  of: number;
  value: number;
  low: number | null;
  high: number | null;
  /** Whether it cannot be told from the best. */
  tied: boolean;
  second_value: number | null;
}

/** A set of methods to begin with. */
export interface Preset {
  name: string;
  title: string;
  says: string;
  specs: string[];
}

/** What the model's probabilities depended on. */
export interface ProbabilitySettings {
  temperature: number;
  lapse: number;
}

/** What is asked: ``template`` has one slot, ``target`` is a class of the model, ``method`` a spec. */
export interface Probe {
  model: string;
  template: string;
  groups: ProbeGroup[];
  target: string;
  method?: string;
}

/** The means of the first group less those of the second. */
export interface ProbeDifference {
  between: [string, string];
  probability?: number;
  logit: number;
  relevance: number;
}

/** Words that stand for one group. */
export interface ProbeGroup {
  name: string;
  words: string[];
}

/** Means over the words of a group. */
export interface ProbeMeans {
  name: string;
  /** How many. */
  words: number;
  probability?: number;
  logit: number;
  relevance: number;
}

/** By which method words have their relevance. */
export interface ProbeMethod {
  spec: string;
  title: string;
  signed: boolean;
  class_specific: boolean;
}

/** The template with one word in its slot, and what the model made of it. */
export interface ProbeRow {
  group: string;
  word: string;
  text: string;
  /** A regression has none. */
  probability?: number;
  logit: number;
  /** Of the word. */
  relevance: number;
  /** The tokens that the word was read as. */
  pieces: string[];
  /** Whether one of them is the token for unknown words. */
  unknown: boolean;
}

/** A refusal (RFC 9457): what was wrong, and what to send instead. */
export interface ProblemDocument {
  /** urn:vitrine:problem: and a name for machines. */
  type: string;
  title: string;
  status: number;
  /** What was wrong. */
  detail: string;
  /** What to send instead. */
  send?: string;
}

/** How far a study is: how many inputs of how many the model has answered. */
export interface ProgressData {
  asked: number;
  total: number;
}

/** The loading goes on. */
export interface ProgressEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "progress";
  data: Blob;
}

/** What scores add up to, and under which rules. */
export interface Promise {
  rules: string[];
  total: string;
}

/** A prompt as the model read it, where its words are explained. */
export interface PromptInput {
  kind: "text";
  /** null where only its tokens are known. */
  text: string | null;
  tokens: Token[];
  words: Word[];
  /** The second text of a pair. */
  text_pair?: string;
  /** Of a molecule, whose SMILES the text is. */
  molecule?: MoleculePart;
  /** The picture that a vision-language model read with the text. */
  picture?: PicturePart;
  /** What a language model wrote behind the text; its tokens have part 2. */
  answer?: string;
  prompt: string;
}

/** Prompts to ask together. */
export interface PromptSet {
  name: string;
  prompts: string[];
}

/** The cosine with a prompt. */
export interface PromptWithoutHead {
  prompt: string;
  before: number;
  without: number;
}

/** A protocol of a paper as a run here follows it. */
export interface ProtocolForm {
  name: string;
  title: string;
  methods: string[];
  metrics: string[];
  limit: number;
  options: RunOptions;
  /** What of it cannot be measured here, and why. */
  left_out: string[];
  /** What differs from the paper or its code. */
  notes: string[];
}

/** What can be looked at in the heads of a model. */
export interface Quantities {
  quantities: Quantity[];
}

/** Something that every head has for each pair of tokens. */
export interface Quantity {
  name: string;
  title: string;
  says: string;
  signed: boolean;
}

/** The form of ``POST /api/explanations``: one of image, text and source is explained, or an image with a text. */
export interface QuestionForm {
  /** A text longer than the model takes: read in overlapping windows, whose places are in the answer, or cut to what the model takes. */
  long_texts?: "windows" | "cut";
  /** double: every map of relevance in float64; auto: those whose estimated rounding error asks for it. */
  precision?: "auto" | "double";
  /** Of a model with a task, such as token classification: which place of its output is asked about, a word, tokens:5-7 or patch:3,4; places of an answer lists them. None: the one that the model is surest of. */
  at?: string | null;
  /** Of a language model that writes: lay its tokenizer's chat template around the prompt (chat_template of a model says whether there is one). Its tokens have part 4, always stay, and no map lies on them. */
  chat?: boolean;
  /** Of images: move explains the model without outlier tokens (test-time registers), move_published as the published code does it; its register neurons must be known, as POST /api/explanations/{id}/registers finds them. */
  outlier_tokens?: "keep" | "move" | "move_published";
  /** A name from /api/models. */
  model: string;
  /** A text; or send image, or source. Beside image, what a model that writes about pictures is asked; beside source, another prompt for the same picture. */
  text?: string | null;
  /** A second text that is read with the first: a hypothesis. */
  text_pair?: string | null;
  /** Features without a head: a text that the text is compared with. */
  reference_text?: string | null;
  /** x0,y0,x1,y1: show the model this part of the image alone, in whole pixels of the upright original. Empty: what it takes by itself, also where source was asked with a crop. */
  crop?: string;
  /** level,width: of greys of more than 8 bits (16-bit PNG, TIFF, DICOM), the values that are shown as black to white. Empty or left out: those of the file, else from the smallest to the largest value. */
  window?: string;
  /** For CLIP models: score the image (the default) or the words of each prompt. */
  side?: "image" | "text" | null;
  /** Labels, synonyms, indices, or any:<group> for all classes of a group, clrp:<class> or sglrp:<class> for a class rather than all others, finer:<class> for a class against its nearest kinds, over:0.5 for every label whose probability is at least that; none: the top class. */
  target?: string[];
  /** For CLIP models: what to look for. */
  prompt?: string[];
  /** What target takes, or a prompt: explain how much each target scores above this one. */
  against?: string | null;
  /** The number of each target that is explained: its logit, or its softmax probability. */
  read?: "logit" | "probability";
  /** Specs: method[:rule][?option=value]; none: the model's default ones. */
  methods?: string[];
  /** Specs whose maps are wanted first, in this order; those that are not made are passed over, and what is not named follows. The answer is the same whatever the order. */
  order?: string[];
  /** An image file; of a clip an animated GIF, WebP or PNG, or this field once for each frame. Or send text, or source; an image and a text for a model that writes about pictures. */
  image?: Blob[];
  /** The id of an explanation: explain the same input, bit for bit, not sent again. */
  source?: string | null;
  /** Features without a head: an image file that the image is compared with. Left out with source: the one sent there. */
  reference?: Blob | null;
}

/** How many explanations are before it. */
export interface QueuedData {
  position: number;
}

/** It waits. */
export interface QueuedEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "queued";
  data: Blob;
}

/** The mean curve of random orders. */
export interface RandomCurve {
  area: number;
  probability?: number[];
  logit?: number[];
  value?: number[];
  /** How many orders. */
  seeds: number;
}

/** A method and its place. */
export interface RankedMethod {
  spec: string;
  /** The part of the spec that names the method. */
  readout: string;
  title: string;
  rank: number;
}

/** What a run found by which methods are ranked on the pages. */
export interface Ranking {
  run: string;
  model: string;
  measured: string;
  metric: RankingMetric;
  second: RankingMetric | null;
  random: number | null;
  of: number;
  /** How many methods cannot be told from the best. */
  tied: number;
  trust: TrustedMethod[];
  /** What cannot be told from a random map. */
  by_chance: RankedMethod[];
  /** What is worse than one. */
  worse: RankedMethod[];
}

/** A metric that methods are ranked by, and what it asks of one. */
export interface RankingMetric {
  name: string;
  title: string;
  unit: string;
  direction: string;
  /** What it found of a method, in words, with ``{value}`` and ``{random}`` in per cent. */
  says: string;
}

/** A model is loaded, work moves, and what is made can be stored. */
export interface Readiness {
  status: "ready";
  models: { [name: string]: "available" | "loading" | "loaded" | "failed" };
}

/** Patches that touch and are won by the same label. */
export interface Region {
  /** In pixels of the upright original; null where they lie in padding. */
  box: [number, number, number, number] | null;
  patches: number;
  peak: number;
}

/** Which label wins which patch. */
export interface Regions {
  id: string;
  method: string;
  threshold: number;
  grid: [number, number];
  /** What the mask covers. */
  crop: [number, number, number, number];
  labels: LabelRegions[];
  none: WonPatches;
}

/** The neurons of MLPs whose activations are large at outlier tokens. */
export interface RegisterNeurons {
  weights_digest: string;
  /** Over which they were looked for. */
  pictures: string;
  /** How many pictures. */
  seen: number;
  /** How many of them have an outlier token. */
  counted: number;
  /** Counted from 0: the norms of what it gives tell outlier tokens. */
  block: number;
  /** The norm above which a token is one; null where none stands apart. */
  threshold: number | null;
  /** Block and neuron, the strongest first. */
  neurons: [number, number][];
}

/** What is known of a model's outlier tokens, and of the neurons that make them. */
export interface Registers {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  known: RegisterNeurons;
  /** What was found, in a sentence. */
  says: string;
  /** Whether the model can be explained without them: outlier_tokens=move. */
  can_move: boolean;
  /** Those of this picture; null where no norm stands apart. */
  outliers: OutlierPatches | null;
}

/** Nothing but the explanation. */
export interface RegistersRequest {
}

/** One check on a sample. */
export interface ReportCheck {
  name: string;
  title: string;
  state: "passed" | "failed" | "not asked";
  detail: string;
}

/** Something that was found of a model. */
export interface ReportFact {
  name: string;
  value: string;
}

/** Something that nobody said, and the argument that says otherwise. */
export interface ReportGuess {
  what: string;
  why: string;
  argument: string;
}

/** The lines that make an explanation again. */
export interface ReproducingLines {
  python: string;
  curl: string;
}

/** A backward rule: a choice for each kind of operator. */
export interface Rule {
  by: string;
  year: number | null;
  paper: string;
  name: string;
  title: string;
  label: string;
  short: string;
  group: string;
  attention: string;
  norm: string;
  activation: string;
  product: string;
  linear: string;
  bias: boolean;
  strength: { [name: string]: number };
}

/** What a rule may do with operators of a kind. */
export interface RuleChoice {
  value: string | boolean;
  title: string;
  says: string;
  /** What a rule with it must carry; null where both will do. */
  carries: string | null;
}

/** The backward rules. */
export interface Rules {
  rules: Rule[];
  kinds: OperatorKind[];
}

/** A run, and how far it is. */
export interface Run {
  /** Which class is explained. */
  target?: "predicted" | "second" | "gold" | "each" | "together" | "contrast";
  /** Which number of it. */
  explains?: "logit" | "probability";
  /** How pictures are brought to the model's size; null: as it was trained. */
  resize?: "squashed" | "cropped" | null;
  /** In which way tokens are taken away. */
  how?: string | null;
  /** Which labels of an input count as right. */
  right?: "any" | "first";
  /** In how many equal steps tokens are taken away. */
  steps?: number;
  /** How texts are read that are longer than the model takes. */
  long_texts?: "windows" | "cut" | null;
  /** A model that is loaded. */
  model: string;
  /** A data set of GET /api/runs, or the name that POST /api/runs/data gave. */
  dataset: string;
  /** Specs, or sets of methods: default, quick, ... */
  methods?: string[];
  /** Names of metrics. */
  metrics?: string[];
  /** How many inputs, drawn with the seed. */
  limit?: number;
  seed?: number;
  /** Leave out inputs that cannot be read. */
  skip_broken?: boolean;
  /** Show the best and worst inputs with the figures; null: those of data sets that ship with Vitrine. */
  examples?: boolean | null;
  id: string;
  /** That of its data set. */
  title: string;
  created: string;
  state: "waiting" | "running" | "done" | "stopped" | "failed";
  done: number;
  total: number;
  seconds_left: number | null;
  /** Why it failed. */
  problem?: ProblemDocument;
}

/** What a run of a model on a data set may be asked, each with the reason where it may not. */
export interface RunChoices {
  metrics: MeasurableMetric[];
  options: { [name: string]: RunOptionValue[] };
  protocols: ProtocolForm[];
}

/** What a map costs. */
export interface RunCosts {
  devices: string[];
  seconds: { [name: string]: CostFigure };
  /** Bytes, the most of a map made alone; null where the device does not count them. */
  memory: { [name: string]: number | null };
}

/** The mean probability of the explained class while tokens are taken away. */
export interface RunCurves {
  fractions: number[];
  methods: { [name: string]: number[] };
}

/** The data set of a run. */
export interface RunDataset {
  name: string;
  title: string;
  description?: string;
  source?: Source | null;
  split?: string | null;
  /** Files in its folder that were not read. */
  unread?: number;
}

/** The run is over. */
export interface RunEndedEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "ended";
  data: Blob;
}

/** What a run found of a method by a metric. */
export interface RunFigure {
  value: number | null;
  error: number | null;
  low: number | null;
  high: number | null;
  inputs?: number;
  tied: boolean;
}

/** A method of a run. */
export interface RunMethod {
  spec: string;
  /** The part of the spec that names the method. */
  readout: string;
  title: string;
  by: string;
  year: number | null;
  signed: boolean;
  control: boolean;
}

/** A metric of a run. */
export interface RunMetric {
  name: string;
  title: string;
  family?: string;
  description: string;
  direction: "lower" | "higher" | null;
  lowest?: number | null;
  highest?: number | null;
  unit: string;
  source: Source | null;
  takes?: { [name: string]: string };
  kinds?: string[];
  /** Why it cannot tell methods apart, where it cannot. */
  cannot_tell: string | null;
  /** Its agreement with the truth on this kind of input; null where they were not compared. */
  truth: TruthOfKind | null;
  /** Why it is not to be believed on this kind of input, each a predicate. */
  doubts: string[];
}

/** A value of an option of a run. */
export interface RunOptionValue {
  value: string | null;
  title: string;
  /** Why it cannot be chosen here. */
  reason: string | null;
}

/** How a run measures, as ``vitrine evaluate`` takes it. Null: as suits the model. */
export interface RunOptions {
  /** Which class is explained. */
  target?: "predicted" | "second" | "gold" | "each" | "together" | "contrast";
  /** Which number of it. */
  explains?: "logit" | "probability";
  /** How pictures are brought to the model's size; null: as it was trained. */
  resize?: "squashed" | "cropped" | null;
  /** In which way tokens are taken away. */
  how?: string | null;
  /** Which labels of an input count as right. */
  right?: "any" | "first";
  /** In how many equal steps tokens are taken away. */
  steps?: number;
  /** How texts are read that are longer than the model takes. */
  long_texts?: "windows" | "cut" | null;
}

/** What a run measured. */
export interface RunPlan {
  model: string;
  dataset: string;
  methods?: string[];
  metrics?: string[];
  limit?: number | null;
  target: string;
  how: string | null;
  seed: number;
  explains?: string;
  resize?: string | null;
  right?: string;
  steps?: number;
  long_texts?: string;
  /** Maps whose place is known, which were measured beside the methods. */
  controls?: string[];
}

/** The run goes on. */
export interface RunProgressEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "progress";
  data: Blob;
}

/** What a run measured and found. */
export interface RunReport {
  id: string;
  shipped: boolean;
  /** Whether it was begun on the page. */
  begun_here: boolean;
  shows_inputs: boolean;
  /** How was measured, a sentence each. */
  protocol: string[];
  /** In which way tokens were taken away, where the plan names none. */
  removal?: string;
  format: number;
  plan: RunPlan;
  weights_digest?: string;
  calibration?: ProbabilitySettings;
  versions?: { [name: string]: string };
  inputs: number;
  data_digest?: string;
  tokens_at_once?: number;
  /** Inputs of which the model knows no class. */
  left_out?: number;
  /** Inputs that could not be read and were left out. */
  broken?: BrokenInput[];
  /** Of how many inputs each class was left out, as the model knows nothing of its name. */
  unknown?: { [name: string]: number };
  command: string | null;
  seconds?: number | null;
  kind: string;
  dataset: RunDataset;
  methods: RunMethod[];
  metrics: RunMetric[];
  interval: Interval;
  results: { [name: string]: { [name: string]: RunFigure } };
  curves: { [name: string]: RunCurves };
  /** Of each method the conservation error by block, where it was measured. */
  blocks?: { [name: string]: BlockFigure[] | null };
  costs?: RunCosts | null;
}

/** What is measured. */
export interface RunRequest {
  /** Which class is explained. */
  target?: "predicted" | "second" | "gold" | "each" | "together" | "contrast";
  /** Which number of it. */
  explains?: "logit" | "probability";
  /** How pictures are brought to the model's size; null: as it was trained. */
  resize?: "squashed" | "cropped" | null;
  /** In which way tokens are taken away. */
  how?: string | null;
  /** Which labels of an input count as right. */
  right?: "any" | "first";
  /** In how many equal steps tokens are taken away. */
  steps?: number;
  /** How texts are read that are longer than the model takes. */
  long_texts?: "windows" | "cut" | null;
  /** A model that is loaded. */
  model: string;
  /** A data set of GET /api/runs, or the name that POST /api/runs/data gave. */
  dataset: string;
  /** Specs, or sets of methods: default, quick, ... */
  methods?: string[];
  /** Names of metrics. */
  metrics?: string[];
  /** How many inputs, drawn with the seed. */
  limit?: number;
  seed?: number;
  /** Leave out inputs that cannot be read. */
  skip_broken?: boolean;
  /** Show the best and worst inputs with the figures; null: those of data sets that ship with Vitrine. */
  examples?: boolean | null;
}

/** Runs in one table. */
export interface RunTable {
  title: string;
  rows_are: string;
  /** The heads of each outer level, the outermost first. */
  upper_heads: TableHead[][];
  columns: TableColumn[];
  rows: TableRow[];
  /** What the marks say that occur. */
  legend: string[];
  notes: string[];
  /** What cells refer to by number. */
  numbered_notes: string[];
}

/** What can be measured here, and the runs that were begun here, the last first. */
export interface Runs {
  models: MeasurableModel[];
  sets: Preset[];
  /** Inputs of a run, and of a data set that is sent. */
  most: number;
  /** Megabytes of a data set that is sent. */
  most_mb: number;
  runs: Run[];
}

/** An input to try. */
export interface Sample {
  id: string;
  kind: "image" | "text" | "clip" | "molecule";
  model: string;
  title: string;
  note?: string;
  /** The address of a picture. */
  image?: string;
  /** The picture, small, as a data URI. */
  thumbnail?: string;
  text?: string;
  text_pair?: string;
  /** Of a molecule, the SMILES of one that differs from it in one group. */
  pair?: string;
  prompts?: string[];
  sets?: PromptSet[];
  target?: string;
  /** What the picture shows. */
  objects?: string[];
  /** Whether the model is easily misled by it. */
  trap?: boolean;
  /** The class that people give it. */
  expected?: string;
  /** The class that the model gives it, where that was noted. */
  model_says?: string;
}

/** Inputs to try. */
export interface Samples {
  samples: Sample[];
}

/** A word and its score over the largest magnitude of all. */
export interface ScoredWord {
  text: string;
  score: number;
}

/** A map that is not stored. */
export interface ScoresToTest {
  /** One number a token, as many as the maps of the explanation have. */
  scores: number[];
  /** The label of one of the explained targets; none: the first. */
  target?: string | null;
}

/** What a block adds. */
export interface SimilarityBlock {
  block: number;
  /** What its MLP adds. */
  mlp: number;
  heads: SimilarityHead[];
}

/** The cosine with a prompt, or the difference of two: the sum of ``start``, and of the MLPs and heads of all blocks, to rounding. */
export interface SimilarityDecomposition {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  target: string;
  cosine: number;
  grid: [number, number];
  /** What the classification token adds as it is before block 1. */
  start: number;
  blocks: SimilarityBlock[];
  /** Over which the words were chosen. */
  pictures: string | null;
  /** From how many they were chosen. */
  texts: number | null;
}

/** What a head adds. */
export interface SimilarityHead {
  total: number;
  /** Of the patches in raster order. */
  scores: number[];
  /** Of the tokens that stand for no patch. */
  outside: number;
  /** What it looks for; empty where it adds the same to every picture; null: not known. */
  words: HeadText[] | null;
  /** How far what it adds is from its mean over pictures; null: not known. */
  spread: number | null;
}

/** Whose cosine to take apart. */
export interface SimilarityRequest {
  /** The label of a target of the explanation; none: the first. */
  target?: string | null;
}

/** Where a data set or a metric was published. */
export interface Source {
  authors: string;
  year: number | null;
  title: string;
  link: string;
}

/** A spec that was asked about, in its parts. */
export interface SpecParts {
  spec: string;
  /** The spec of the method with its rule alone, as ``pairs`` and ``variants`` list it. */
  pair: string;
  readout: string;
  rule: string | null;
  options: { [name: string]: boolean | number | string };
}

/** How far methods can be trusted: their places in a run that ships. */
export interface Standing {
  run: string;
  model: string;
  /** On what, in words. */
  measured: string;
  /** On how many inputs, in words: the beginning of ``measured``. */
  inputs: string;
  metric: RankingMetric;
  /** By what those that are tied with the best are no worse either. */
  second: RankingMetric | null;
  /** What random scores have. */
  random: number | null;
  random_second: number | null;
  ranks: { [name: string]: Place };
  /** Whether it was measured on this very model. */
  here: boolean;
}

/** The model has answered, and these maps will follow. */
export interface StartedData {
  /** The person's name for it. */
  title?: string;
  /** What the logits mean. */
  output?: "softmax" | "sigmoid" | "regression";
  input?: ImageInput | TextInput;
  /** Where the words of prompts are explained. */
  prompts?: PromptInput[];
  /** Of a text that is longer than the model takes. */
  windows?: TextWindow[];
  /** Of a model that gives more than one answer to an input: its task, such as token-classification. */
  task?: string;
  /** Of such a model, the place of its output that is explained. */
  place?: OutputPlace;
  /** Of such a model, which places there are. */
  places?: OutputPlace[];
  /** Of a model whose outlier tokens are known: which patches are such. */
  outliers?: OutlierPatches;
  /** What is explained. */
  targets?: Target[];
  /** What the model finds likeliest, best first. */
  top?: Target[];
  abstention?: Abstention;
  /** What a person should know. */
  notes?: string[];
  /** Specs. */
  expected: string[];
  /** While they are made: about how many seconds each takes. */
  costs?: { [name: string]: number };
}

/** The model has answered. */
export interface StartedEvent {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "started";
  data: Blob;
}

export interface StudyDone_Alikeness_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_AnswerTable_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_Contributions_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_DeletionScore_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_FaithfulInteraction_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_HeadMaps_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_Interaction_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_Mix_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_PatchSimilarity_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_Registers_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_SimilarityDecomposition_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_TokenMaps_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_Union_DeletionCurves__EditedAnswer__ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_WithoutHead_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

export interface StudyDone_WordProbe_ {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "done";
  data: Blob;
}

/** A study begins whose like were timed before. */
export interface StudyExpected {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "expected";
  data: Blob;
}

/** A study failed. */
export interface StudyFailed {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "failed";
  data: Blob;
}

/** A study goes on. */
export interface StudyProgress {
  /** Its place in the story, where it has one: the header Last-Event-ID takes it. */
  id?: string;
  event: "progress";
  data: Blob;
}

/** A figure. */
export interface TableCell {
  value: number | null;
  printed: string;
  /** Its interval, or its standard error. */
  spread: string;
  /** Of how many inputs it is, where others have a value. */
  count: string;
  /** Its place among the numbered notes, from 1. */
  note: number | null;
  best: boolean;
  /** Whether it cannot be told from the best. */
  star: boolean;
}

/** Something that can be selected. */
export interface TableChoice {
  name: string;
  title: string;
}

/** What can be selected of the runs. */
export interface TableChoices {
  models: string[];
  datasets: TableChoice[];
  metrics: TableMetric[];
  metric_families: TableChoice[];
  method_families: TableChoice[];
}

/** A column of a table. */
export interface TableColumn {
  /** From the outermost level to its own. */
  head: string[];
  /** Its own head with its unit and an arrow to the better end. */
  printed: string;
  direction: "lower" | "higher" | null;
}

/** A head of an outer level, and over how many columns it stands. */
export interface TableHead {
  head: string;
  columns: number;
}

/** A metric that can be selected. */
export interface TableMetric {
  name: string;
  title: string;
  family: string;
}

/** A row of a table. */
export interface TableRow {
  title: string;
  /** Of the method; empty where rows are no methods. */
  spec: string;
  cells: TableCell[];
}

/** An explained class or prompt, or one that the model thinks of. */
export interface Target {
  label: string;
  /** Of the class; a group and a difference have none. */
  index?: number;
  /** Of a CLIP model. */
  prompt?: string;
  logit: number;
  /** A regression and a difference have none. */
  probability?: number;
  /** Which number of it is explained. */
  read?: "logit" | "probability";
  /** The class or prompt itself, where the label says more. */
  of?: string;
  /** The class or prompt that it is set against. */
  against?: string;
  /** The group that it is. */
  group?: string;
  /** Of a target that a package adds; what to send for it is then in of. */
  kind?: string;
  /** Of a prompt that the model cannot read or that is not in the picture. */
  abstention?: Abstention;
}

/** A part of a map. */
export interface Term {
  /** The sum over patches or words. */
  total: number;
  scores: number[];
}

/** A text as the model read it. */
export interface TextInput {
  kind: "text";
  /** null where only its tokens are known. */
  text: string | null;
  tokens: Token[];
  words: Word[];
  /** The second text of a pair. */
  text_pair?: string;
  /** Of a molecule, whose SMILES the text is. */
  molecule?: MoleculePart;
  /** The picture that a vision-language model read with the text. */
  picture?: PicturePart;
  /** What a language model wrote behind the text; its tokens have part 2. */
  answer?: string;
}

/** A part of a text that is longer than the model takes, and what the model says of this part alone. */
export interface TextWindow {
  start: number;
  end: number;
  /** The first and the last of its pieces. */
  tokens: [number, number];
  /** The top class. */
  label: string;
  probability: number | null;
  /** Of each explained target. */
  logits: number[];
}

/** A name of one's own. */
export interface TitleRequest {
  /** The title; null or blank takes it away. */
  title: string | null;
}

/** The methods for several prompts that a CLIP model is asked together. */
export interface TogetherMethods {
  standing: Standing;
  /** The specs that are computed where a question names none. */
  usual: string[];
  /** The parts of those that have options. */
  specs: SpecParts[];
}

/** A piece of a text as the model reads it. */
export interface Token {
  text: string;
  /** The first of its characters. */
  start: number;
  /** Behind the last of its characters. */
  end: number;
  /** Whether it stands for no word. */
  special: boolean;
  /** Of a pair of texts, 1 in the second. */
  part?: number;
}

/** Where in the picture each token of the answer was, from logits alone. */
export interface TokenMaps {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  answer: string;
  /** Of the answer. */
  tokens: string[];
  /** Of each token, what the field `at` of POST /api/explanations takes. */
  places: string[];
  grid: [number, number];
  /** Of each token, a number from 0 to 1 for each patch, in raster order. */
  maps: number[][];
}

/** Nothing is chosen. */
export interface TokenMapsRequest {
}

/** A group of atoms that is known to make molecules mutagenic. */
export interface Toxicophore {
  name: string;
  atoms: number[];
}

/** A method that a run gives reason to trust, and its figures. */
export interface TrustedMethod {
  rank: number;
  of: number;
  value: number;
  low: number | null;
  high: number | null;
  /** Whether it cannot be told from the best. */
  tied: boolean;
  second_value: number | null;
  spec: string;
  /** The part of the spec that names the method. */
  readout: string;
  title: string;
}

/** The agreement in one world. */
export interface TruthInWorld {
  tau: number;
  low: number;
  high: number;
  /** How many methods have a value. */
  methods: number;
  /** How many were measured. */
  of: number;
  /** The method that the metric puts first. */
  first: string;
  /** Its place by truth. */
  first_place: number;
}

/** The mean over worlds of known truth; methods are those of the world in which the smallest share of them has a value. */
export interface TruthOfKind {
  tau: number;
  low: number;
  high: number;
  /** How many methods have a value. */
  methods: number;
  /** How many were measured. */
  of: number;
  worlds: number;
}

/** A run in which it is known what answers come from. */
export interface TruthWorld {
  name: string;
  kind: string;
  model: string;
  dataset: string;
  /** Whether it is known that answers come from what is marked and from nothing else. */
  marks_alone: boolean;
  inputs: number;
  truth: WorldTruth;
  /** In the order of the truth, the best first. */
  methods: WorldMethod[];
  controls: WorldControl[];
}

/** An upload that takes files. */
export interface UploadId {
  id: string;
}

/** How much of an upload has arrived; ``left_out``: names of files that are never read. */
export interface UploadState {
  files: number;
  bytes: number;
  left_out: string[];
}

/** A method with one of its own rules. */
export interface Variant {
  by: string;
  year: number | null;
  paper: string;
  spec: string;
  readout: string;
  rule: string | null;
  title: string;
  /** Whether the title says the rule. */
  names_rule: boolean;
  signed: boolean;
  class_specific: boolean;
  slow: boolean;
  default: boolean;
  description: string;
  passes: string;
  adds_up_to: string | null;
  /** Why it cannot run; null where it can. */
  reason: string | null;
  /** Options with one of which it can all the same. */
  remedies: string[];
}

/** The model asked again with one head giving nothing. */
export interface WithoutHead {
  /** Of the explanation. */
  id: string;
  /** What a person should know. */
  notes: string[];
  target: string;
  block: number;
  head: number;
  /** Before. */
  cosine: number;
  /** Before, less what the head adds directly. */
  direct: number;
  /** What the model says without it, later blocks included. */
  without: number;
  prompts: PromptWithoutHead[];
}

/** Which head to take away. */
export interface WithoutHeadRequest {
  /** The label of a target of the explanation; none: the first. */
  target?: string | null;
  /** Counted from 0. */
  block: number;
  /** Counted from 0. */
  head: number;
}

/** The patches that one label wins, or none. */
export interface WonPatches {
  /** Its value in regions.png. */
  index: number;
  patches: number;
  share: number;
}

/** A word of a text. */
export interface Word {
  text: string;
  start: number;
  end: number;
  /** The indices of its pieces. */
  tokens: number[];
  /** Of a pair of texts, 1 in the second. */
  part?: number;
}

/** What one word of a sentence does. */
export interface WordProbe {
  model: string;
  target: string;
  template: string;
  method: ProbeMethod;
  rows: ProbeRow[];
  groups: ProbeMeans[];
  /** null for one group alone. */
  difference: ProbeDifference | null;
  notes: string[];
}

/** A map whose place is known, which is no method. */
export interface WorldControl {
  name: string;
  title: string;
  /** How well it names the tokens that answers come from. */
  value: number;
  low: number;
  high: number;
  /** Among the methods of the world, by truth. */
  place: number;
}

/** A method of a world, and how well its maps name the tokens that answers come from. */
export interface WorldMethod {
  spec: string;
  title: string;
  value: number;
  low: number;
  high: number;
  /** By other metrics that are told the truth. */
  further: { [name: string]: number | null };
}

/** The metric that is the truth of a world. */
export interface WorldTruth {
  name: string;
  title: string;
  unit: string;
}
