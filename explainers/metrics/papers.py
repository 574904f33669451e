"""The publications that metrics come from."""

from explainers.citation import Citation

_ARXIV = "https://arxiv.org/abs/"
LIBRAGRAD = Citation(authors="Mehri et al.", year=2025, title="LibraGrad, CVPR 2025, arXiv 2411.16760", link=_ARXIV + "2411.16760")
CHEFER = Citation(
    authors="Chefer et al.",
    year=2021,
    title="Transformer Interpretability Beyond Attention Visualization, CVPR 2021, arXiv 2012.09838",
    link=_ARXIV + "2012.09838",
)
ALI_CITATION = Citation(
    authors="Ali et al.",
    year=2022,
    title="XAI for Transformers: Better Explanations through Conservative Propagation, ICML 2022, arXiv 2202.07304",
    link=_ARXIV + "2202.07304",
)
SRG = Citation(
    authors="Blücher et al.",
    year=2024,
    title="Decoupling Pixel Flipping and Occlusion Strategy for Consistent XAI Benchmarks, TMLR 2024, arXiv 2401.06654",
    link=_ARXIV + "2401.06654",
)
ERASER = Citation(
    authors="DeYoung et al.",
    year=2020,
    title="ERASER: A Benchmark to Evaluate Rationalized NLP Models, ACL 2020, arXiv 1911.03429",
    link=_ARXIV + "1911.03429",
)
ATTCAT = Citation(
    authors="Qiang et al.", year=2022, title="AttCAT: Explaining Transformers via Attentive Class Activation Tokens, NeurIPS 2022"
)
POINTING = Citation(
    authors="Zhang et al.",
    year=2018,
    title="Top-down Neural Attention by Excitation Backprop, IJCV 2018, arXiv 1608.00507",
    link=_ARXIV + "1608.00507",
)
ENERGY = Citation(authors="Wang et al.", year=2020, title="Score-CAM, CVPR Workshops 2020, arXiv 1910.01279", link=_ARXIV + "1910.01279")
GRID = Citation(
    authors="Böhle et al.",
    year=2021,
    title="Convolutional Dynamic Alignment Networks for Interpretable Classifications, CVPR 2021, arXiv 2104.00032",
    link=_ARXIV + "2104.00032",
)
SANITY = Citation(
    authors="Adebayo et al.", year=2018, title="Sanity Checks for Saliency Maps, NeurIPS 2018, arXiv 1810.03292", link=_ARXIV + "1810.03292"
)
INFIDELITY = Citation(
    authors="Yeh et al.",
    year=2019,
    title="On the (In)fidelity and Sensitivity of Explanations, NeurIPS 2019, arXiv 1901.09392",
    link=_ARXIV + "1901.09392",
)
FULLGRAD = Citation(
    authors="Srinivas & Fleuret",
    year=2019,
    title="Full-Gradient Representation for Neural Network Visualization, NeurIPS 2019, arXiv 1905.00780",
    link=_ARXIV + "1905.00780",
)
