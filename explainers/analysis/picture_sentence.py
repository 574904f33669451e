"""A sentence on which of several pictures in a prompt the answer came from, by one map."""

from __future__ import annotations

from explainers.models.inputs.types import PicturePromptInput
from explainers.records.result import Attribution


def picture_sentence(attribution: Attribution) -> str:
    """Return a sentence that names the picture from which the answer came most, by the map ``attribution``, or "" if fewer than two
    pictures were read.

    If the method's scores are signed, the sums of the scores of each picture's patches are compared, else the largest scores.
    """
    record = attribution.text
    if not isinstance(record, PicturePromptInput) or len(record.pictures) < 2:
        return ""
    maps = [picture.map_of(attribution.scores) for picture in record.pictures]
    each_value = (float(each.sum() if attribution.signed else each.max()) for each in maps)
    values = dict(zip(record.picture_names, each_value, strict=True))
    best, following = sorted(values, key=lambda name: -values[name])[:2]
    name = best.capitalize()
    speaks, has, its = ("speak", "have", "their") if best.startswith("frames") else ("speaks", "has", "its")
    if f"{values[best]:.3g}" == f"{values[following]:.3g}":
        return f"{name} and {following} count alike: {values[best]:.3g} each."
    if attribution.signed and values[best] <= 0:
        return f"No picture speaks for {attribution.target}. The highest is {best}: {values[best]:+.3g}."
    if not attribution.signed:
        return f"{name} {has} the largest patch: {values[best]:.3g}. Next is {following} with {values[following]:.3g}."
    return (
        f"{name} {speaks} most for {attribution.target}: {its} patches add up to {values[best]:+.3g}. "
        f"Next is {following} with {values[following]:+.3g}."
    )
