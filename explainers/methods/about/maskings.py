"""What is said of methods that hide parts and ask again, that compare patches with prompts, and of the control."""

from __future__ import annotations

from explainers.methods.about.texts import HIDING, PATCHES_ALONE, About

MASKS: dict[str, About] = {
    "occlusion": About(
        (r"s_j = f(x) - f\left(x \; \text{without} \; j\right)",),
        "A token, or a window around it, is hidden (a patch painted grey, in the mean colour; a word piece masked), and the fall of the "
        "answer is its score.",
        "When the question is about the effect of one place, and hiding it leaves a plausible input.",
        f"Evidence that stands there twice is missed, as the other copy still serves. {HIDING}",
        line="How far the answer falls when each patch is painted grey, or each word masked.",
    ),
    "rise": About(
        (r"s_j = \frac{1}{p} \text{mean}_m \left(f(x \odot m) - \text{mean} \, f\right) m_j",),
        "Hundreds of random maskings: a token scores high where the answer is high while it is shown. p is the share that is kept.",
        "As a judge from outside: it needs no look inside the model.",
        f"Random: another seed, another map; more samples make it calmer (Petsiuk et al. 2018, arXiv 1806.07421). {HIDING}",
        line="Random parts are painted grey, or masked, many times; what matters when shown is bright.",
    ),
    "kernel_shap": About(
        (
            r"s = \text{argmin}_s \sum_m \pi(m) \left(f(x \odot m) - s_0 - \sum_j s_j m_j\right)^2",
            r"\pi(m) \propto \frac{1}{\binom{n}{|m|} |m| (n - |m|)}",
        ),
        "A weighted straight-line fit to the answers for coalitions of parts, whose weights are Shapley values: each part's fair share. "
        "n is the number of parts: patches or word pieces, or where there are many, neighbours that are hidden together, of a grid that "
        "is halved or of superpixels. Where all 2^n coalitions can be asked they are, and the values are exact; else whole sizes are asked "
        "that fit, and others drawn.",
        "For texts of some dozen words, and for regions of a picture: features=8 is exact. Two seeds' correlation stands with the map.",
        f"With hardly more maskings than parts the fit is not determined, and the map is mostly noise. {HIDING}",
        line="Each part's fair share of the answer, from hiding parts together.",
    ),
    "lime": About(
        (r"s = \text{argmin}_s \sum_m \pi(m) \left(f(x \odot m) - s_0 - \sum_j s_j m_j\right)^2 + \alpha \sum_j |s_j|",),
        "A sparse straight-line fit to the answers under random maskings, near maskings counting more.",
        "When a handful of words or patches is wanted, and a second run gives the same ones.",
        f"Unstable: small changes of input or seed can give another map (Alvarez-Melis & Jaakkola 2018, arXiv 1806.08049). {HIDING}",
        line="The few parts that best predict the answer when others are hidden.",
    ),
    "tis": About(
        (r"s_j = \frac{\sum_k p_k m_{k,j}}{\sum_k m_{k,j}}",),
        "The model's own activations say which patches belong together; each such group is given to the model alone, and a patch "
        "gets the mean of the answers of its groups.",
        "When nothing may be assumed of what goes on inside, and time does not matter.",
        "Which groups come out depends on where k-means starts, here always at the same place; a patch in no group has no score. Unlike "
        "other maskings no hole is shown: the tokens are gone (Englebert et al. 2023).",
        line="How sure the model stays, on average, when it is given this part and others that go with it.",
    ),
    "vit_cx": About(
        (r"s_j = \frac{1}{K} \sum_k \left(p_k - p'_k + f\right) \frac{M_{k,j}}{\sum_i M_{i,j}}",),
        "Groups of features of the last block become masks of the picture; the answer to what a mask shows, less what noise outside of it "
        "does alone, is spread over the mask.",
        "As TIS, where soft masks suit the picture better than whole patches.",
        "Masks that overlap share what they show, and hidden parts are noise, which is no picture either (Xie et al. 2023, "
        "arXiv 2211.03064).",
        line="How sure the model stays when only parts are shown that its last layer groups together.",
    ),
    "mda": About(
        (
            r"s_i = (1 - \gamma) \left(\frac{d_i}{|i|} + d_i \frac{n - i}{n}\right) + \gamma \, \text{dense}_i",
            r"d_i = u_{i-1} - u_i",
        ),
        "An order of the n patches is searched for by asking the model about thousands of pictures, so that few patches bring the answer "
        "back and few take it away; u is a falling curve fitted to its answers along that order, and |i| the size of a patch in pixels.",
        "As the best that insertion and deletion tests can be made to say: other maps can be held against it.",
        "It is made from the tests by which maps are judged, so doing well in them says nothing for it. A search that takes the best next "
        "patch misses those that work only together (Walker et al. 2025).",
        line="The order of showing and hiding patches that moves the answer most, found by trying.",
    ),
    "maskclip": About(
        (r"s_j = \cos\left(\text{project}(y_j), t\right)", r"A^L = I"),
        "In the last block every patch attends to itself alone; what comes out is projected and compared with the prompt t.",
        "As a first picture of where things are that a prompt names: the same passes do for all prompts. With several, less=prompts "
        "takes away what they have in common at each patch, which tells things of one photo apart: with the embedded clip a prompt then "
        "lights its own thing more than the others in 87 % of 92 prompts on COCO's photos (71 % as published, LeGrad 76, a random map 41), "
        "and in all 80 on photos side by side (98, 98, 50). Of the patches of a thing its prompt wins 62 and 76 % (LeGrad 63 and 79, a "
        "random map 47 and 50).",
        f"{PATCHES_ALONE} The paper's formula leaves residual and MLP of the last block out, its code does not; after= has both.",
        line="How like the prompt each part looks, each part on its own: a cosine, not a part of the score.",
    ),
    "sclip": About(
        (
            r"s_j = \cos\left(\text{project}(y_j), t\right)",
            r"A^L = \text{softmax}\left(q q' d^{-1/2}\right) + \text{softmax}\left(k k' d^{-1/2}\right)",
        ),
        "In the last block patches attend to those with queries and with keys like their own, so that parts of a thing speak together.",
        "As MaskCLIP, where single patches are too noisy.",
        f"{PATCHES_ALONE} Rows of its attention add up to 2, as published (Wang et al. 2024, arXiv 2312.01597).",
        line="How like the prompt each part looks, together with parts that resemble it: a cosine, not a part of the score.",
    ),
    "clearclip": About(
        (r"s_j = \cos\left(\text{project}(y_j), t\right)", r"A^L = \text{softmax}\left(q q' d^{-1/2}\right)"),
        "In the last block patches attend to those with queries like their own, and what comes along on the residual path is left out.",
        "Where the last residual carries noise over the whole picture, as in large CLIPs.",
        f"{PATCHES_ALONE} The head never saw tokens without their residual (Lan et al. 2024, arXiv 2407.12442).",
        line="How like the prompt each part looks, by what the last layer alone adds: a cosine, not a part of the score.",
    ),
    "naclip": About(
        (
            r"s_j = \cos\left(\text{project}(y_j), t\right)",
            r"A^L = \text{softmax}\left(k k' d^{-1/2} + w\right)",
        ),
        "As ClearCLIP with keys in place of queries, and a window w that lets near patches count more.",
        "For whole things: neighbours smooth the map.",
        f"{PATCHES_ALONE} The width of the window is in patches, so it is another one for another input size (Hajimiri et al. 2025, "
        "arXiv 2404.08181).",
        line="How like the prompt each part looks, together with its neighbours: a cosine, not a part of the score.",
    ),
    "gem": About(
        (
            r"s_j = \cos\left(\text{project}(y_j), t\right)",
            r"A^l = \text{mean} \, \text{softmax}\left(T u u'\right)",
        ),
        "Beside the model's own path through its last blocks runs a second one, on which patches with like queries, keys or values u "
        "are drawn together; T says how sharply.",
        "Where things are large and of one kind: it groups patches.",
        f"{PATCHES_ALONE} The published code counts one block less than its option says; here the number is that of blocks "
        "(Bousselham et al. 2024, arXiv 2312.00878).",
        line="How like the prompt each part looks, after parts of a kind are drawn together: a cosine, not a part of the score.",
    ),
    "clip_surgery": About(
        (r"s_j = w \cos\left(\text{project}(y_j), t\right) - \text{mean}_t \, w \cos\left(\text{project}(y_j), t\right)",),
        "A second path through the last blocks on which patches attend to those with values like theirs; what a patch has in common with "
        "all prompts, or with an empty one, is taken away.",
        "With several prompts: what is left is what tells them apart.",
        f"{PATCHES_ALONE} The map of a prompt depends on which others are asked with it (Li et al. 2025, arXiv 2304.05653).",
        line="How like this prompt each part looks, more than like the other prompts: cosines, no shares of the score.",
    ),
    "clip_decomposition": About(
        (
            r"s_j = \sum_{l,h} t \cdot \text{project}\left(A^{l,h}_{0,j} W_O^{l,h} v^{l,h}_j\right)",
            r"\cos = \sum_j s_j + \text{what the MLPs add}",
        ),
        "The classification token is a sum of what each token sends it through each head and of what the MLPs add. With the scale of the "
        "last norm held, the cosine with the prompt is the same sum: exactly, to rounding.",
        "To see which heads and patches write the prompt's direction: beside it, Layers and heads says what each head looks for in words.",
        "Only what reaches the classification token directly is counted: what a head does through later blocks, and what the MLPs make of "
        "it, is in no patch (Gandelsman et al. 2024, arXiv 2310.05916).",
        line="What each part sends directly to the answer, of the cosine with the prompt.",
    ),
    "random": About(
        (r"s_j \sim \text{uniform}(0, 1)",),
        "Random numbers that know nothing of input or model.",
        "Never: it is there so that the others can be seen to beat it.",
        "A method that does no better than this in a test says nothing there.",
        line="Drawn at random: every other map has to beat it.",
    ),
}
