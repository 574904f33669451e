"""The meaning of each metric in one line, for pages; its exact definition is the description of the metric itself."""

from __future__ import annotations

from typing import Any

#: By the name of a metric: what it counts, from the reader's side.
LINES = {
    "mif": "Hide what a map marks most: how often does the answer change?",
    "mif_aopc": "Hide what a map marks most: how far does the answer's probability fall?",
    "mif_log_odds": "Hide what a map marks most: how small a share of the answer's probability is left, on a log scale?",
    "lif": "Keep only what a map marks most: how often does the answer stay?",
    "lif_aopc": "Hide what a map marks least: how far does the answer's probability fall? It should not.",
    "lif_log_odds": "Hide what a map marks least: how much of the answer's probability is left, on a log scale?",
    "srg": "Hiding what a map marks should break the answer, hiding the rest should not: the gap between both.",
    "srg_accuracy": "The gap between hiding what a map marks least and most, counted by how often the answer stays.",
    "positive_auc": "Blacken the strongest pixels first: how often is the answer still right?",
    "negative_auc": "Blacken the weakest pixels first: how often is the answer still right?",
    "road": "Fill the strongest pixels in from their neighbours: how often does the answer stay? It should not.",
    "road_least": "Fill the weakest pixels in from their neighbours: how often does the answer stay?",
    "auac": "Bring back the strongest parts first: how fast does the right answer return?",
    "auac_special": "As AUAC, with special tokens brought back like words.",
    "auac_superpixels": "Bring back the strongest patches of like colour first: how fast does the right answer return?",
    "au_mse": "Hide the weakest parts first: how far do the model's scores move? They should not.",
    "au_mse_special": "As AU-MSE, with special tokens hidden like words.",
    "comprehensiveness": "Remove the strongest 1 to 50 %: how far does the answer's probability fall?",
    "sufficiency": "Keep only the strongest 1 to 50 %: how far does the answer's probability fall? It should not.",
    "attcat_aopc": "Hide the strongest words first: how far does the answer's probability change?",
    "attcat_log_odds": "Mask the strongest words first: how small a share of the answer's probability is left, on a log scale?",
    "leave_one_out": "Does a map rank parts as their absence does, each hidden alone?",
    "average_drop": "Dim the picture by the map: how much of the answer's probability is lost?",
    "confidence_increase": "Dim the picture by the map: how often does the model get surer?",
    "mas_insertion": "Bring back the strongest parts first; a map loses points where its scores are too large or too small.",
    "mas_deletion": "Remove the strongest parts first; a map loses points where its scores are too large or too small.",
    "monotonicity_insertion": "Bring back the strongest parts first: does the answer's probability only rise?",
    "monotonicity_deletion": "Remove the strongest parts first: does the answer's probability only fall?",
    "soft_ns": "Keep each part as strongly as it scores: how much of the answer is saved?",
    "soft_nc": "Weaken each part as strongly as it scores: how much of the answer is lost?",
    "faithfulness_correlation": "Hide a random fifth: does the answer fall by as much as its parts score?",
    "sensitivity_n": "Hide random sets, small and large: does the answer fall by as much as their parts score?",
    "infidelity": "How far are the scores of hidden parts from what hiding them does to the answer?",
    "infidelity_scaled": "How far are the scores of hidden parts, scaled as fits best, from what hiding them does to the answer?",
    "saco": "Do parts with larger scores matter more, by as much as their scores say?",
    "naopc": "Hide the strongest words first: how near is the fall of the answer to the best possible order?",
    "claim": "How often does what a map marks first earn a claim that chance earns in at most 5 %?",
    "claim_size": "How small a part of the input is a claim about, where a map earns one?",
    "csdc": "Does a map name parts that are enough to tell the class from all others?",
    "preservation_check": "Keep only the parts that a map names: how often does the answer stay?",
    "deletion_check": "Take away the parts that a map names: how often does the answer change?",
    "distractibility": "How many of the parts and things that do not count does a map leave unnamed?",
    "background_independence": "How many things around the object does the model not go by? The same for every map.",
    "single_deletion": "Does a map rank parts as their absence does, each left out alone?",
    "target_sensitivity": "Asked for two other classes, does a map name the parts that speak for each?",
    "completeness": "How far is the sum of a map from the number that it explains?",
    "conservation": "How much of the explained number is lost or added on the way back through the blocks?",
    "class_correlation": "How alike are the maps of the answer and of the runner-up? 1: the same map whatever is asked.",
    "class_tau": "How alike do the maps of the answer and of the runner-up rank parts? 1: the same order.",
    "randomisation": "How much of a map stays while the model's weights become random, layer by layer? It should change.",
    "randomisation_end": "How much of a map stays once all of the model's weights are random? It should change.",
    "sensitivity": "How far can a map change under a tiny change of the input?",
    "agreement": "How alike are a method's maps and those of the other methods? Neither end is better.",
    "ap": "Do the strongest parts of a map lie on the thing?",
    "patch_ap": "Do the strongest patches lie on the thing, patch by patch?",
    "patch_auc": "How often does a patch on the thing score above a patch off it? Chance: 50 %.",
    "own_object": "Of two things in a photo, how often is the one that is asked for marked more?",
    "energy": "How much of a map's positive score lies on the thing?",
    "energy_ratio": "How many times more of a map lies on the thing than its area would explain? Chance: 1.",
    "pointing": "How often does the strongest point of a map lie on the thing?",
    "grid_pointing": "In a mosaic of four pictures, how much of a map lies in the right one? Chance: 25 %.",
    "pixel_accuracy": "Cut a map at its mean: how many pixels are rightly called thing or background?",
    "miou": "Cut a map at its mean: how well do thing and background overlap with the truth?",
    "map": "Do the strongest pixels lie on the thing, and the weakest off it?",
    "auprc": "Do the strongest words agree with the words that people marked?",
    "reciprocal_rank": "How near the top is the word that decides? 1: always first.",
    "mass_marked": "How much of a map's positive score lies on the words that decide?",
    "sparseness": "How few parts hold most of a map? It says nothing of whether they are the right ones.",
    "complexity": "Over how many parts is a map spread? It says nothing of whether they are the right ones.",
    "iou_f1": "Do the marked passages overlap with those that people marked?",
}
_TOKEN_F1 = "token_f1_"


def metric_line(metric: dict[str, Any]) -> str:
    """Return the meaning of a metric of a report in one line; for a metric of another package, the first sentence of its description."""
    name: str = metric["name"]
    if name.startswith(_TOKEN_F1):
        return f"How well do the {name.removeprefix(_TOKEN_F1)} strongest words agree with the words that people marked?"
    return LINES.get(name) or f"{metric.get('description', '').partition('. ')[0].rstrip('.')}."
