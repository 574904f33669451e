"""What is said of methods that look into the model: attention, gradients, relevance, decompositions."""

from __future__ import annotations

from explainers.methods.about.texts import AGNOSTIC, ATTENTION_FAILS, BREAKS, CANCELS, EXACT, LAYERS, About

INSIDE: dict[str, About] = {
    "raw_attention": About(
        (r"s_j = \frac{1}{H} \sum_h A^L_{h,c,j}",),
        "The row of the last attention map that belongs to the token the answer is read from. Nothing else of the model is looked at.",
        "As a first look at where the last block reads from, and as a line that other methods should beat.",
        f"{ATTENTION_FAILS} It skips all blocks but one, where tokens are already mixed. {AGNOSTIC}",
        line="Where the last layer of the model looks. It is the same for every answer.",
    ),
    "rollout": About(
        (r"C = \prod_{l=L}^{1} \frac{\bar{A}^l + I}{2}", r"s_j = C_{c,j}"),
        "Follows attention from the answer down through every block to the input. Half of each block's signal is taken to pass it by on "
        "the residual path.",
        "When the question is where information can have come from, whatever it says.",
        f"Heads are averaged, values and feed-forward layers left out; background gets a share as attention does (Chefer et al. 2021, "
        f"arXiv 2012.09838). {AGNOSTIC}",
        line="Where the model looked, followed back through all its layers. It is the same for every answer.",
    ),
    "gradcam_attention": About(
        (r"s_j = \left(\frac{1}{H} \sum_h w_h A^L_{h,c,j}\right)^{+}", r"w_h = \text{mean}_j \nabla A^L_{h,c,j}"),
        "The last attention map again, but each head counts by how much the answer would gain if that head attended more. For texts the "
        "weight is a mean over the whole map.",
        "When one block decides, as in shallow models and for a coarse place in an image.",
        "Where all weighted heads are negative the map is empty, and it knows only the last block (Chefer et al. 2021, arXiv 2012.09838).",
        line="Where the last layer looks, counting most what would make the answer surer.",
    ),
    "generic_attention": About(
        (r"C = \prod_{l=L}^{1} \left(I + \frac{1}{H} \sum_h \left(A^l_h \odot \nabla A^l_h\right)^{+}\right)", r"s_j = C_{c,j}"),
        "In every block, attention is kept where more of it would raise the answer; these maps are then multiplied through the blocks.",
        "As a cheap map of a chosen class that needs nothing but attention and its gradient.",
        "It shows only what speaks for the class, and sees what attention moves but not what the values carry (Chefer et al. 2021, "
        "arXiv 2103.15679, leave both out by design).",
        line="Where the model looked in all layers, counting what would make the answer surer.",
    ),
    "attcat": About(
        (r"s_j = \sum_{l=1}^{L-1} \alpha^l_j \sum_d y^l_{j,d} \nabla y^l_{j,d}", r"\alpha^l_j = \text{mean}_{h,i} A^l_{h,i,j}"),
        "Each token's share of the answer at the end of every block, weighted by how much attention the token gets there.",
        "For texts, where it was made and where the sign of a word matters.",
        f"{LAYERS} Paper and published code differ in which tokens meet which attention, and their maps correlate by -0.42 to 0.77 (BERT); "
        "the option published_code has the other one.",
        line="What each part adds to the answer, layer by layer; parts that the model looks at count more.",
    ),
    "transformer_attribution": About(
        (r"C = \prod_{l=L}^{1} \left(I + \frac{1}{H} \sum_h \left(\nabla A^l_h \odot R^l_h\right)^{+}\right)", r"s_j = C_{c,j}"),
        "Relevance is taken back from the class to every attention map, weighted with the gradient there, and the positive parts are "
        "multiplied through the blocks.",
        "For the place of an object of a chosen class: it is the map that many later papers compare with.",
        f"It shows only what speaks for the class. {CANCELS}",
        line="Credit for the answer is handed back, layer by layer, along what the model looked at.",
    ),
    "transformer_attribution_without_gradient": About(
        (r"C = \prod_{l=L}^{1} \left(I + \frac{1}{H} \sum_h \left(A^l_h \odot R^l_h\right)^{+}\right)", r"s_j = C_{c,j}"),
        "Transformer Attribution with attention in the place of its gradient: shows what the gradient was good for.",
        "To understand Transformer Attribution, not to explain a model.",
        f"Worse than the whole method in the authors' own tests (Chefer et al. 2021, arXiv 2012.09838, ablation). {CANCELS}",
        line="Transformer Attribution without the step that tells classes apart.",
    ),
    "transformer_attribution_last_block": About(
        (r"s_j = \frac{1}{H} \sum_h \left(\nabla A^L_{h,c,j} R^L_{h,c,j}\right)^{+}",),
        "Transformer Attribution that stops at the last block.",
        "To see how much of the map comes from the blocks before.",
        f"Tokens of the last block are mixtures already, so a patch may speak for its neighbours (Chefer et al. 2021, ablation). {CANCELS}",
        line="Transformer Attribution, read at the last block alone.",
    ),
    "transformer_attribution_second_block": About(
        (r"s_j = \frac{1}{H} \sum_h \left(\nabla A^2_{h,c,j} R^2_{h,c,j}\right)^{+}",),
        "Transformer Attribution read at the second block alone, near the input.",
        "To see how far the class can be told that early on the way back.",
        f"One early block says little of the class (Chefer et al. 2021, arXiv 2012.09838, ablation). {CANCELS}",
        line="Transformer Attribution, read at one early block.",
    ),
    "partial_lrp": About(
        (r"s_j = \frac{1}{H} \sum_h \left(R^L_{h,c,j}\right)^{+}",),
        "Relevance of the last attention map, positive part, mean of the heads.",
        "As a baseline between raw attention and Transformer Attribution.",
        f"One block only; hardly differs from class to class (pictures of two classes in Chefer et al. 2021, arXiv 2012.09838). {CANCELS}",
        line="Credit for the answer is handed back through the last layer only.",
    ),
    "lrp": About(
        (r"s_j = \sum_d R^1_{j,d}",),
        "Relevance taken all the way back: to the pixels, summed over each patch, or to the embedded words.",
        "As the baseline of many tables. Compare it with Conservative LRP or AttnLRP, which repair it for Transformers.",
        f"The published baseline doubles relevance at every linear layer, and its map hardly depends on the class (Chefer et al. 2021, "
        f"and their code). {CANCELS}",
        line="Credit for the answer is handed back, step by step, to each part.",
    ),
    "pa_lrp": About(
        (
            r"s_j = \sum_p \left(\frac{1}{f} \left(R_p + \frac{1}{n} \sum_d P_{j,d} \nabla z_{j,d}\right)\right)^{+}",
            r"z_j = E_j + P_j",
        ),
        "A patch enters the model as what it shows plus where it is. LRP taken back to the pixels loses the part of the second; here the "
        "relevance of the position embedding is added to the pixels of its patch. The answer starts with relevance 1.",
        "When a map of LRP has holes in a thing that the model must have seen: positions often carry the rest of it.",
        "Its rule hands nothing back through attention weights and gives values half, as the authors' code has it, so relevance is lost "
        "(its paper asks that none is). Rotary and relative positions, for which the paper has rules too, are not split here: models that "
        "have only these are refused, and of those that also add an embedding, such as EVA-02, that alone is shown.",
        line="Credit for the answer, handed back to what a patch shows and to where it is.",
    ),
    "token_tm": About(
        (
            r"C^l = \left(I + W^l_{\text{mlp}}\right) \left(I + \left(\bar{A}^l W^l_{\text{att}}\right) \odot "
            r"\text{mean}_h \left(\nabla A^l_h\right)^{+}\right) C^{l-1}",
            r"W = \text{diag}\left(\frac{|x'|}{|x|} \, \text{softmax} \cos(x, x')\right)",
            r"C^0 = \text{diag} \, |x^1|, \quad s_j = C^L_{c,j}",
        ),
        "Attention and its gradient through the blocks, each token weighted by how its length and its direction change on the way "
        "from x to x′ in each half of a block.",
        "When long vectors that a block shrinks should not count as much as attention alone would have it.",
        "The authors published no formula for the weights; this is the one of LibraGrad's code. Positive parts only.",
        line="Where the model looked in all layers; parts that a layer changes much count more.",
    ),
    "legrad": About(
        (
            r"s_j = \sum_{l} \text{mean}_{h,i} \left(\nabla_{A^l} f^l\right)^{+}_{h,i,j}",
            r"f^l = \text{head}\left(\text{mean}_i \, y^l_i\right)",
        ),
        "Asks after each of the last blocks: if the model had to answer now, how would the answer grow with attention? The positive "
        "gradients are averaged over heads and queries and added.",
        "For CLIP, where it was made, and where several layers form the answer.",
        "It gives the head a mean of tokens that it was not trained on, and shows sensitivity, not what attention carried (by its own "
        "definition: Bousselham et al. 2025, arXiv 2404.03214).",
        line="Where looking more would make the answer surer, added up over the layers.",
    ),
    "grad_eclip": About(
        (
            r"s_j = \left(\lambda_j \sum_d g_d v_{j,d}\right)^{+}",
            r"g = \nabla o_c, \quad \lambda_j = \text{scaled} \cos(q_c, k_j)",
        ),
        "The values v of the last block, weighted by the gradient g at what attention put out there, and by how like its query q "
        "each key k is. No softmax is in it, so strong tokens do not drown the others.",
        "For image and prompt in CLIP, where it was made.",
        "One block only. The published code runs that block with one head, and then the model says something else; the option single_head "
        "has that (Zhao et al. 2024 and their code). On texts their notebook adds eight blocks, this one takes the last.",
        line="What the last layer takes from each part, times what the answer needs of it.",
    ),
    "decompx": About(
        (
            r"z_{i \leftarrow j} \mapsto \text{block}^l\left(z_{i \leftarrow j}\right)",
            r"s_j = \text{head}\left(z_{c \leftarrow j}\right), \quad \sum_j s_j \approx f",
        ),
        "Every token is sent through the model on its own, with attention, scales and gates held at what they were; what arrives "
        "at the answer is its score.",
        "When sums matter: scores add up to the answer but for the biases, and sign and size can be taken at their word.",
        "Holding attention constant says nothing of why it went where it went (Modarressi et al. 2023, arXiv 2306.02873). Slow. Its "
        "authors share biases among the tokens, in proportion to |z · b|, which the option biases=absdot does; a bias is then credited "
        "to tokens that it does not come from.",
        line="Each part is sent through the model alone; its score is what arrives.",
    ),
    "globenc": About(
        (r"N^l_{i,j} = \left|v^l_{i \leftarrow j}\right|_2", r"C = \prod_{l=L}^{1} \frac{N^l}{\text{row sum}}, \quad s_j = C_{c,j}"),
        "Measures the vector v that each token really gives to each other one through attention and the residual path, and rolls these "
        "lengths out over the blocks.",
        "In place of rollout: it sees values and residuals, not attention alone.",
        f"The feed-forward layers are left out, and a long vector counts even where others cancel it (Modarressi et al. 2022, "
        f"arXiv 2205.03286). Rows are scaled to sum 1 here; the published code multiplies the lengths as they are, which the option "
        f"published_code does. {AGNOSTIC}",
        line="How much each part really hands on to the others, through all blocks.",
    ),
    "alti": About(
        (
            r"N^l_{i,j} = \left(|o^l_i|_1 - |o^l_i - v^l_{i \leftarrow j}|_1\right)^{+}",
            r"C = \prod_{l=L}^{1} \frac{N^l}{\text{row sum}}, \quad s_j = C_{c,j}",
        ),
        "As GlobEnc, but a contribution v counts by how near it comes to what attention really puts out, o, not by its length.",
        "In place of GlobEnc where contributions cancel each other.",
        f"The feed-forward layers are left out (Ferrando et al. 2022, arXiv 2203.04212). {AGNOSTIC}",
        line="How near each part's share comes to what a block puts out, through all blocks.",
    ),
    "input_x_gradient": About(
        (r"s_j = \sum_d x^1_{j,d} \nabla x^1_{j,d}",),
        "Each embedded patch or word piece times the signal that came back to it. With the rules of Ali et al. this is Conservative LRP, "
        "with those of Achtibat et al. AttnLRP.",
        f"Not with the ordinary gradient. {EXACT}",
        BREAKS,
        line="What each part itself adds to the answer.",
    ),
    "hirescam": About(
        (r"s_j = \sum_d x^L_{j,d} \nabla x^L_{j,d}",),
        "Token times gradient where the last block begins.",
        "When the tokens are still near their patches in the last block.",
        f"Late tokens are mixtures of many patches, so the place may be wrong (Mehri et al. 2025 compare the layers). {BREAKS}",
        line="What each part adds to the answer, measured before the last layer.",
    ),
    "saliency": About(
        (r"s_j = \sum_d \left|\nabla x^1_{j,d}\right|",),
        "How strongly the answer reacts to a small change of each token, whichever way.",
        "For the question where the model is sensitive, which is not the question what it used.",
        "Gradients of deep networks are noisy (Smilkov et al. 2017, arXiv 1706.03825), and a feature that is used to the full has none "
        "(Shrikumar et al. 2017, arXiv 1704.02685).",
        line="How much the answer reacts to a small change of each part.",
    ),
    "gradcam_plus": About(
        (r"s_j = \sum_{l=1}^{L} \sum_d w^l_d x^l_{j,d}, \quad w^l_d = \text{mean}_j \nabla x^l_{j,d}",),
        "Grad-CAM on tokens, in every block: channels are weighted by their mean gradient, and the maps are added.",
        "For the rough place of a class when one map for all blocks is wanted.",
        f"One weight for a channel everywhere: it cannot tell two places that use it differently (Draelos & Carin 2020, "
        f"arXiv 2011.08891). The mean is over the classification token too, as in LibraGrad's code. {LAYERS}",
        line="Which parts hold features that raise the answer, added up over all layers.",
    ),
    "xgradcam_plus": About(
        (r"s_j = \sum_{l=1}^{L} \sum_d w^l_d x^l_{j,d}, \quad w^l_d = \frac{\sum_j |x^l_{j,d}| \nabla x^l_{j,d}}{\sum_j |x^l_{j,d}|}",),
        "GradCAM+ with channel weights that listen more to the tokens where the channel is active.",
        "As GradCAM+, where activity is spread unevenly.",
        f"The sign of the activity is left out, other than in XGrad-CAM's own formula (Fu et al. 2020, arXiv 2008.02312). {LAYERS}",
        line="Which parts hold features that raise the answer, counted where they are strong, over all layers.",
    ),
    "pytorch_grad_cam": About(
        (r"s_j = \left(\sum_d w_d z_{j,d}\right)^{+}, \quad w_d = \text{mean}_j \nabla z_{j,d}, \quad z = \text{LN}\left(x^L\right)",),
        "Grad-CAM at the first norm of the last block, the classification token left out: what pytorch-grad-cam's users draw of a ViT.",
        "To see here what that library shows.",
        "Where the head reads one token, patches reach the answer through the last attention alone, so their gradients are small and "
        "noisy; one weight for a channel everywhere cannot tell two places that use it differently. What speaks against the class is left "
        "out.",
        line="Which parts hold features that raise the answer, as the last layer reads them.",
    ),
    "refinecam": About(
        (
            r"s_j = n\left(\prod_{l=1}^{L} n\left(m^l\right)\right)_j, \quad m^l_j = \left(\sum_d w^l_d z^l_{j,d}\right)^{+}",
            r"n(m) = \frac{m - \min m}{\max m - \min m}",
        ),
        "A Grad-CAM of every block, each stretched to the range from 0 to 1, multiplied: what is left is where all blocks agree.",
        "For a sharp outline in networks whose early layers are finer; in a ViT all blocks have the same patches, and it sharpens alone.",
        "One block without a positive score makes the whole map zero, and its note says which. The weights are those of torch-cam's "
        "Grad-CAM++ unless cam= says otherwise: sums of g² g⁺, as its code divides by Grad-CAM++'s denominator in a copy that it drops "
        "(Domeniconi et al. 2026, arXiv 2605.14641, resize each map to the picture first).",
        line="Where the features that raise the answer lie in every layer at once.",
    ),
    "fullgrad": About(
        (r"s_j = \sum_d x^1_{j,d} \nabla x^1_{j,d} + \sum_{b} \sum_d b_{j,d} \nabla b_{j,d}", r"\sum_j s_j = f \quad \text{under Libra}"),
        "Input times gradient, and every bias times its gradient at the token where it acts: the whole account of the answer.",
        f"{EXACT} The line “sum is off by” of its plate says how far that holds.",
        f"Biases of the head have no place in the image and go to the classification token. {BREAKS}",
        line="What each part adds to the answer, with nothing of the answer left out.",
    ),
    "fullgrad_plus": About(
        (r"s_j = \sum_{l=1}^{L} \sum_d x^l_{j,d} \nabla x^l_{j,d} + \sum_{b} \sum_d b_{j,d} \nabla b_{j,d}",),
        "FullGrad with the tokens of every block, not of the first alone: evidence that is only formed later is seen where it is formed.",
        "Under Libra, for the ranking of patches or words: the method that its paper recommends (Mehri et al. 2025).",
        f"{LAYERS} {BREAKS} The tables of its paper explain the probability of a class; here that is its logit, unless the probability is "
        "asked for. On CLIP, Libra holds the norm of the embeddings constant, which the paper's code does by one of its presets only.",
        line="What each part adds to the answer, added up over all layers.",
    ),
    "integrated_gradients": About(
        (r"s_j = \sum_d \left(x_{j,d} - x'_{j,d}\right) \int_0^1 \nabla f\left(x' + a (x - x')\right)_{j,d} \, da",),
        "The gradient is averaged on the straight path from an empty input x′ to the real one, and multiplied with the way.",
        "When completeness is wanted without changing any rule, and its plate says that the “sum is off by” little.",
        "The empty input is a choice, and the map changes with it (Sturmfels et al. 2020, Distill). Points on the path are no real "
        "inputs; with too few of them the sum is off. The points are Gauss-Legendre's, where papers add 50 equal steps: "
        "quadrature=riemann does that.",
        line="What each part adds on the way from an empty input to this one.",
    ),
    "smoothgrad": About(
        (r"s_j = \sum_d \left|\text{mean}_n \nabla f\left(x + \varepsilon_n\right)_{j,d}\right|",),
        "Saliency, averaged over noisy copies of the input.",
        "To see which parts of a saliency map are more than noise.",
        "How much noise decides what is seen (Smilkov et al. 2017, arXiv 1706.03825), and it is sensitivity still: no sign, no share.",
        line="How much the answer reacts to each part, averaged over noisy copies.",
    ),
    "attention_flow": About(
        (
            r"s_j \propto \text{maxflow}\left(c \to j\right)",
            r"\text{capacity of} \; (l, i) \to (l-1, j) = \frac{1}{2} \left(\bar{A}^l + I\right)_{i,j}",
        ),
        "Attention as pipes: as much as can flow from the answer down to each token.",
        "Beside rollout: an upper bound of what attention could have carried.",
        f"{ATTENTION_FAILS} Very slow for images. {AGNOSTIC}",
        line="How much attention can flow from the answer down to each part.",
    ),
}
